// SPDX-License-Identifier: Apache-2.0
#include "../allocator_share.h"

#include <c10/cuda/CUDACachingAllocator.h>

namespace castor {

void set_allocator_share(double share, c10::DeviceIndex device) {
  c10::cuda::CUDACachingAllocator::setMemoryFraction(share, device);
}

}  // namespace castor

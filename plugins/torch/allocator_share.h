// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

namespace castor {

/// Lets torch's CUDA allocator take this share of the GPU at most, 0 to 1. Does nothing in a build of torch without
/// CUDA. Throws torch's exceptions.
void set_allocator_share(double share, c10::DeviceIndex device);

}  // namespace castor

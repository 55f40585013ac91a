// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/device.h>

namespace castor {
namespace {

Error no_cuda() {
  return {ErrorKind::failed,
          "no GPU: this Castor was built without CUDA; use `device` cpu, or rebuild where nvcc is installed "
          "(-Dcuda=enabled)",
          "device"};
}

}  // namespace

Result<int> count_cuda_devices() { return no_cuda(); }

Result<std::unique_ptr<Device>> make_cuda_device(int) { return no_cuda(); }

}  // namespace castor

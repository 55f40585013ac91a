// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include <castor/memory/result.h>
#include <castor/memory/stream.h>

namespace castor::kernels {

/// `status` as a Result; the message says what was being done and what CUDA answered.
inline Result<void> cuda_result(cudaError_t status, const std::string& doing) {
  if (status == cudaSuccess) return {};
  (void)cudaGetLastError();  // this error is told now; it must not be told again by whoever asks next
  return Error{ErrorKind::failed, doing + ": " + cudaGetErrorString(status) + " (CUDA error " +
                                      std::to_string(static_cast<int>(status)) + ")"};
}

/// The GPU that holds `data`: kernels run there, whichever device the calling thread is on. Errors: failed, where
/// `data` is not in a GPU's reach.
inline Result<int> device_of(const void* data, const std::string& what) {
  cudaPointerAttributes attributes{};
  CASTOR_TRY(cuda_result(cudaPointerGetAttributes(&attributes, data), what + ": asking CUDA where it lies"));
  if (attributes.type == cudaMemoryTypeUnregistered)
    return Error{ErrorKind::failed, what +
                                        " lies in ordinary host memory, which a CUDA kernel cannot read; copy it to "
                                        "the device, or use the host's kernel"};
  return attributes.device;
}

/// Makes `device` current for the calling thread, and the former one again at the end.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    (void)cudaGetDevice(&former_);
    (void)cudaSetDevice(device);
  }
  ~CurrentDevice() { (void)cudaSetDevice(former_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int former_ = 0;
};

/// Queues `kernel` on `stream`, `n_blocks` × `n_threads`. The launch's own status comes back, where cudaGetLastError
/// would also tell of what others left there (a query answered "not ready").
template <typename... Parameters, typename... Arguments>
cudaError_t launch(Stream& stream, std::uint64_t n_blocks, unsigned n_threads, void (*kernel)(Parameters...),
                   Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(n_blocks));
  config.blockDim = dim3(n_threads);
  config.stream = static_cast<cudaStream_t>(stream.native_handle());
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace castor::kernels

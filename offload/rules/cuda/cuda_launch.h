// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include <castor/memory/result.h>
#include <castor/memory/stream.h>

namespace castor::kernels {

/// `status` as a Result; the message names the action `doing` and CUDA's answer.
inline Result<void> cuda_result(cudaError_t status, const std::string& doing) {
  if (status == cudaSuccess) return {};
  (void)cudaGetLastError();  // this error is reported now; the next call of cudaGetLastError must not report it again
  return Error{ErrorKind::failed, doing + ": " + cudaGetErrorString(status) + " (CUDA error " +
                                      std::to_string(static_cast<int>(status)) + ")"};
}

/// The GPU that holds `data`, on which its kernels run, whichever device the calling thread has made current. Errors:
/// failed, where no GPU can reach `data`.
inline Result<int> device_of(const void* data, const std::string& what) {
  cudaPointerAttributes attributes{};
  CASTOR_TRY(cuda_result(cudaPointerGetAttributes(&attributes, data), what + ": asking CUDA for its place"));
  if (attributes.type == cudaMemoryTypeUnregistered)
    return Error{ErrorKind::failed, what +
                                        " is in ordinary host memory, which a CUDA kernel cannot read; copy it to "
                                        "the device, or use the host's kernel"};
  return attributes.device;
}

/// Makes `device` current for the calling thread; the destructor makes the former device current again.
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

/// Queues `kernel` on `stream`, `n_blocks` × `n_threads`. Returns the launch's own status; cudaGetLastError would also
/// report the status of earlier calls (a query answered "not ready").
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

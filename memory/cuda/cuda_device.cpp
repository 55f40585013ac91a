// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/bytes.h>
#include <castor/memory/device.h>

#include "cuda_clock.h"
#include "cuda_error.h"
#include "cuda_events.h"
#include "cuda_pages.h"
#include "cuda_resources.h"
#include "cuda_stream.h"
#include "device_guard.h"

namespace castor {
namespace {

class CudaDevice final : public Device {
 public:
  CudaDevice(int ordinal, const cudaDeviceProp& properties)
      : ordinal_(ordinal),
        name_(properties.name),
        total_bytes_(properties.totalGlobalMem),
        device_memory_(ordinal),
        pages_(CudaPages::make(ordinal)),
        pinned_memory_(ordinal) {}

  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string description() const override { return name_; }
  Result<std::unique_ptr<Stream>> make_stream() override { return CudaStream::make(ordinal_, shared_); }
  std::unique_ptr<Stream> wrap_compute_stream(void* handle) override {
    return std::make_unique<CudaStream>(ordinal_, static_cast<cudaStream_t>(handle), false, shared_);
  }
  MemoryResource& device_memory() override { return device_memory_; }
  PageSource* pages() override { return pages_.get(); }
  MemoryResource& host_memory() override { return pinned_memory_; }
  std::uint64_t total_memory_bytes() const override { return total_bytes_; }
  std::uint64_t free_memory_bytes() const override {
    const DeviceGuard guard(ordinal_);
    std::size_t free_bytes = 0, total_bytes = 0;
    return cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess ? free_bytes : 0;
  }

 private:
  const int ordinal_;
  const std::string name_;
  const std::uint64_t total_bytes_;
  const CudaShared shared_ = {std::make_shared<CudaClock>(), std::make_shared<CudaEvents>()};
  CudaMemoryResource device_memory_;
  const std::unique_ptr<CudaPages> pages_;
  PinnedResource pinned_memory_;
};

}  // namespace

Result<int> count_cuda_devices() {
  int n_devices = 0;  // stays as it is when the call fails
  const auto status = cudaGetDeviceCount(&n_devices);
  (void)cudaGetLastError();
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver || (status == cudaSuccess && n_devices == 0))
    return Error{ErrorKind::failed,
                 std::string("no GPU: CUDA finds none on this machine (") + cudaGetErrorString(status) +
                     "); use `device` cpu, or install the NVIDIA driver",
                 "device"};
  CASTOR_TRY(cuda_result(status, "no GPU: counting CUDA devices"));
  return n_devices;
}

Result<std::unique_ptr<Device>> make_cuda_device(int ordinal) {
  CASTOR_ASSIGN(const int n_devices, count_cuda_devices());
  if (ordinal < 0 || ordinal >= n_devices)
    return Error{ErrorKind::usage, "CUDA device " + std::to_string(ordinal) + " asked for, this machine has " +
                                       std::to_string(n_devices)};
  CASTOR_TRY(cuda_result(cudaSetDevice(ordinal), "selecting CUDA device " + std::to_string(ordinal)));
  cudaDeviceProp properties{};
  CASTOR_TRY(cuda_result(cudaGetDeviceProperties(&properties, ordinal), "reading CUDA device properties"));
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(ordinal, properties));
}

}  // namespace castor

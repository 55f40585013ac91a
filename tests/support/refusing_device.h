// SPDX-License-Identifier: Apache-2.0
// The host as a device that refuses one allocation, as a machine does that is out of memory for a moment.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <castor/memory/device.h>

namespace castor::test {

/// The setting and the finding of a RefusingDevice. Borrowed by it; must outlive it.
struct Refusal {
  std::uint64_t at = 0;  ///< the allocation to refuse, on either tier, counted from 0
  std::uint64_t n_asked = 0;
};

class RefusingResource final : public MemoryResource {
 public:
  RefusingResource(MemoryResource& upstream, Refusal& refusal) : upstream_(upstream), refusal_(refusal) {}

  Result<void*> allocate(std::uint64_t n_bytes) override {
    if (refusal_.n_asked++ == refusal_.at) return Error{ErrorKind::does_not_fit, "the machine has no more"};
    return upstream_.allocate(n_bytes);
  }
  void deallocate(void* data, std::uint64_t n_bytes) noexcept override { upstream_.deallocate(data, n_bytes); }

 private:
  MemoryResource& upstream_;
  Refusal& refusal_;
};

class RefusingDevice final : public Device {
 public:
  explicit RefusingDevice(Refusal& refusal)
      : device_memory_(host_->device_memory(), refusal), host_memory_(host_->host_memory(), refusal) {}

  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string description() const override { return "refusing"; }
  Result<std::unique_ptr<Stream>> make_stream() override { return host_->make_stream(); }
  std::unique_ptr<Stream> wrap_compute_stream(void* handle) override { return host_->wrap_compute_stream(handle); }
  MemoryResource& device_memory() override { return device_memory_; }
  MemoryResource& host_memory() override { return host_memory_; }
  std::uint64_t total_memory_bytes() const override { return 0; }
  std::uint64_t free_memory_bytes() const override { return 0; }

 private:
  const std::unique_ptr<Device> host_ = make_cpu_device();
  RefusingResource device_memory_, host_memory_;
};

}  // namespace castor::test

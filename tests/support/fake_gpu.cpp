// SPDX-License-Identifier: Apache-2.0
#include "fake_gpu.h"

#include <cstring>
#include <string>
#include <utility>

namespace castor::test {
namespace {

class ManualTime final : public StreamTime {
 public:
  explicit ManualTime(std::uint64_t ns) : ns_(ns) {}
  Result<double> seconds_since(const StreamTime& earlier) const override {
    return static_cast<double>(ns_ - dynamic_cast<const ManualTime&>(earlier).ns_) * 1e-9;
  }

 private:
  const std::uint64_t ns_;
};

/// Runs all work at once on the thread that queues it; a failure stops it as it stops every stream.
class FakeGpuStream final : public Stream {
 public:
  explicit FakeGpuStream(const FakeGpuParts& parts) : parts_(parts) {}

  Event copy(void* target, const void* source, std::uint64_t n_bytes) override {
    if (failure_.ok() && parts_.failing_copy != nullptr && parts_.failing_copy->is_this())
      failure_ = Error{ErrorKind::failed, "scripted failure of a copy"};
    if (failure_.ok()) std::memcpy(target, source, n_bytes);
    return record();
  }
  Result<void> wait(const Event& event) override {
    auto outcome = event.wait();
    if (failure_.ok()) failure_ = outcome;
    return outcome;
  }
  Event record() override {
    if (failure_.ok()) return Event();
    auto state = std::make_shared<HostEventState>();
    state->complete(failure_);
    return Event(std::move(state));
  }
  std::unique_ptr<StreamTime> time() override { return std::make_unique<ManualTime>(parts_.clock.now_ns()); }
  Result<void> synchronize() override { return std::exchange(failure_, {}); }

 private:
  const FakeGpuParts parts_;
  Result<void> failure_;
};

class FakeGpu final : public Device {
 public:
  explicit FakeGpu(const FakeGpuParts& parts) : parts_(parts) {}

  DeviceKind kind() const override { return DeviceKind::cuda; }
  KernelPlace kernels() const override { return KernelPlace::host; }
  std::string description() const override { return "fake GPU"; }
  Result<std::unique_ptr<Stream>> make_stream() override { return wrap_compute_stream(nullptr); }
  std::unique_ptr<Stream> wrap_compute_stream(void*) override { return std::make_unique<FakeGpuStream>(parts_); }
  MemoryResource& device_memory() override { return host_->device_memory(); }
  MemoryResource& host_memory() override {
    return parts_.host_memory != nullptr ? *parts_.host_memory : host_->host_memory();
  }
  PageSource* pages() override { return parts_.pages; }
  std::uint64_t total_memory_bytes() const override { return parts_.allocator.total_bytes(); }
  std::uint64_t free_memory_bytes() const override {
    const std::uint64_t page_bytes = parts_.pages != nullptr ? parts_.pages->held_bytes() : 0;
    return total_memory_bytes() - parts_.allocator.reserved_bytes() - page_bytes - parts_.others_bytes;
  }

 private:
  const FakeGpuParts parts_;
  const std::unique_ptr<Device> host_ = make_cpu_device();
};

}  // namespace

std::unique_ptr<Device> make_fake_gpu(const FakeGpuParts& parts) { return std::make_unique<FakeGpu>(parts); }

}  // namespace castor::test

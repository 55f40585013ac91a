// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include <castor/memory/clock.h>
#include <castor/memory/device.h>
#include <castor/memory/system_limit.h>
#include <castor/memory/host_resource.h>

#include "host_stream.h"
#include "host_time.h"

namespace castor {
namespace {

/// Runs all work at once on the thread that queues it: the compute stream of a device that is the host.
class InlineStream final : public Stream {
 public:
  Event copy(void* target, const void* source, std::uint64_t n_bytes) override {
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
  std::unique_ptr<StreamTime> time() override {
    return std::make_unique<HostTime>(std::make_shared<std::uint64_t>(steady_now_ns()), Event());
  }
  Result<void> synchronize() override { return std::exchange(failure_, {}); }

 private:
  Result<void> failure_;
};

class CpuDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string description() const override { return "cpu"; }
  Result<std::unique_ptr<Stream>> make_stream() override {
    try {
      return std::unique_ptr<Stream>(std::make_unique<HostStream>());
    } catch (const std::system_error& refused) {
      return limit_or_failure(refused);
    }
  }
  std::unique_ptr<Stream> wrap_compute_stream(void*) override { return std::make_unique<InlineStream>(); }
  MemoryResource& device_memory() override { return memory_; }
  MemoryResource& host_memory() override { return memory_; }
  std::uint64_t total_memory_bytes() const override { return 0; }
  std::uint64_t free_memory_bytes() const override { return 0; }

 private:
  HostResource memory_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<CpuDevice>(); }

}  // namespace castor

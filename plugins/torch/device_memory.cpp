// SPDX-License-Identifier: Apache-2.0
#include "device_memory.h"

#include <castor/plugins/torch/errors.h>
#include <castor/plugins/torch/runtime.h>

#include <ATen/DeviceAccelerator.h>
#include <c10/core/Allocator.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <array>
#include <atomic>
#include <limits>

namespace castor {
namespace {

/// The accelerator's allocator once it has been initialised, else null.
at::DeviceAllocator* accelerator_allocator() {
  const auto type = at::accelerator::getAccelerator(false);
  if (!type || at::accelerator::deviceCount() == 0) return nullptr;
  at::DeviceAllocator* allocator = at::getDeviceAllocator(*type);
  return allocator->initialized() ? allocator : nullptr;
}

/// The current accelerator's number, or 0 where there is none.
c10::DeviceIndex current_index() {
  const bool any = at::accelerator::getAccelerator(false) && at::accelerator::deviceCount() > 0;
  return any ? at::accelerator::getDeviceIndex() : c10::DeviceIndex{0};
}

constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

std::uint64_t count(std::int64_t bytes) { return static_cast<std::uint64_t>(bytes); }

/// Asks the driver once per device: that takes 100 µs, and the answer never changes.
std::uint64_t total_bytes(at::DeviceAllocator& allocator, c10::DeviceIndex device) {
  static std::array<std::atomic<std::uint64_t>, std::numeric_limits<c10::DeviceIndex>::max() + 1> known{};
  std::atomic<std::uint64_t>& total = known.at(static_cast<std::size_t>(device));
  if (total == 0) total = allocator.getMemoryInfo(device).second;
  return total;
}

thread_local bool allocating = false;

struct Allocating {
  Allocating() { allocating = true; }
  ~Allocating() { allocating = false; }
  Allocating(const Allocating&) = delete;
};

/// Makes work queued on `later` from now on begin after the work queued on `earlier` so far.
void order(c10::Stream earlier, c10::Stream later) {
  c10::Event event(earlier.device_type());
  event.record(earlier);
  event.block(later);
}

}  // namespace

Result<void*> ChunkMemory::allocate(std::uint64_t n_bytes) {
  return guard([&] {
    if (!stream_) stream_ = c10::impl::VirtualGuardImpl(device_.type()).getStreamFromGlobalPool(device_);
    const c10::Stream compute = at::accelerator::getCurrentStream(device_.index());
    const c10::StreamGuard on_it(*stream_);
    const Allocating now;
    void* data = c10::GetAllocator(device_.type())->raw_allocate(n_bytes);
    order(*stream_, compute);
    return data;
  });
}

bool allocates_chunk() { return allocating; }

void ChunkMemory::deallocate(void* data, std::uint64_t) {
  (void)guard([&] {
    order(at::accelerator::getCurrentStream(device_.index()), *stream_);
    c10::GetAllocator(device_.type())->raw_deallocate(data);
  });
}

Result<castor_device_memory> ChunkMemory::memory() { return castor::device_memory(device_); }

void ChunkMemory::reset_peak() { reset_device_peak(device_); }

c10::Device numbered(c10::Device device) {
  if (device.is_cpu() || device.is_meta()) return device.type();
  return device.has_index() ? device : c10::Device(device.type(), current_index());
}

castor_device_memory device_memory(c10::Device device) {
  at::DeviceAllocator* allocator = accelerator_allocator();
  if (allocator == nullptr || device.is_cpu()) return {};
  const auto stats = allocator->getDeviceStats(device.index());
  return {sizeof(castor_device_memory),
          count(stats.allocated_bytes[kAll].current),
          count(stats.allocated_bytes[kAll].peak),
          count(stats.reserved_bytes[kAll].current),
          count(stats.reserved_bytes[kAll].peak),
          total_bytes(*allocator, device.index())};
}

castor_device_memory device_memory() {
  const auto type = at::accelerator::getAccelerator(false);
  return device_memory(type ? numbered(*type) : c10::kCPU);
}

void reset_device_peak(c10::Device device) {
  at::DeviceAllocator* allocator = accelerator_allocator();
  if (allocator != nullptr && !device.is_cpu()) allocator->resetPeakStats(device.index());
}

void* compute_stream(c10::Device device) {
  return device.is_cpu() ? nullptr : at::accelerator::getCurrentStream(device.index()).native_handle();
}

}  // namespace castor

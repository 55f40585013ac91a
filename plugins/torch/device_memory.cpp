// SPDX-License-Identifier: Apache-2.0
#include "device_memory.h"

#include <castor/memory/bytes.h>
#include <castor/plugins/torch/errors.h>

#include <ATen/DeviceAccelerator.h>
#include <c10/core/Allocator.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <array>
#include <atomic>
#include <limits>
#include <string>

namespace castor {
namespace {

/// The accelerator's allocator once it has been initialised, else null.
at::DeviceAllocator* accelerator_allocator() {
  const auto type = at::accelerator::getAccelerator(false);
  if (!type || at::accelerator::deviceCount() == 0) return nullptr;
  at::DeviceAllocator* allocator = at::getDeviceAllocator(*type);
  return allocator->initialized() ? allocator : nullptr;
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

/// What is given to `later` from now on begins after what `earlier` has been given so far.
void order(c10::Stream earlier, c10::Stream later) {
  c10::Event event(earlier.device_type());
  event.record(earlier);
  event.block(later);
}

}  // namespace

c10::Stream ChunkMemory::stream_for(std::uint64_t n_bytes) {
  auto& stream = streams_[page_bytes_ > 0 && n_bytes % page_bytes_ == 0 ? 1 : 0];
  if (!stream) stream = c10::impl::VirtualGuardImpl(device_.type()).getStreamFromGlobalPool(device_);
  return *stream;
}

/// What has been mapped before keeps its pages.
std::uint64_t ChunkMemory::use_pages(std::uint64_t n_bytes) {
  using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
  if (!Config::use_expandable_segments()) return 0;
  const std::string mib = std::to_string(n_bytes / kMiB);
  (void)guard([&] {
    c10::CachingAllocator::setAllocatorSettings(Config::last_allocator_settings() + ",large_segment_size_mb:" + mib);
  });  // a torch that refuses keeps the size it had
  return page_bytes_ = Config::large_segment_size();
}

Result<void*> ChunkMemory::allocate(std::uint64_t n_bytes) {
  return guard([&] {
    const c10::Stream compute = at::accelerator::getCurrentStream(device_.index());
    const c10::Stream own = stream_for(n_bytes);
    const c10::StreamGuard on_own_stream(own);
    void* data = c10::GetAllocator(device_.type())->raw_allocate(n_bytes);
    order(own, compute);
    return data;
  });
}

void ChunkMemory::free(void* data, std::uint64_t n_bytes) {
  (void)guard([&] {
    order(at::accelerator::getCurrentStream(device_.index()), stream_for(n_bytes));
    c10::GetAllocator(device_.type())->raw_deallocate(data);
  });
}

castor_device_memory device_memory() {
  at::DeviceAllocator* allocator = accelerator_allocator();
  if (allocator == nullptr) return {};
  const c10::DeviceIndex device = at::accelerator::getDeviceIndex();
  const auto stats = allocator->getDeviceStats(device);
  return {count(stats.allocated_bytes[kAll].current), count(stats.allocated_bytes[kAll].peak),
          count(stats.reserved_bytes[kAll].current), count(stats.reserved_bytes[kAll].peak),
          total_bytes(*allocator, device)};
}

void reset_device_peak() {
  if (at::DeviceAllocator* allocator = accelerator_allocator())
    allocator->resetPeakStats(at::accelerator::getDeviceIndex());
}

void* compute_stream(c10::Device device) {
  return device.is_cpu() ? nullptr : at::accelerator::getCurrentStream(device.index()).native_handle();
}

}  // namespace castor

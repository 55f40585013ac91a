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

/// Makes work queued on `later` from now on begin after the work queued on `earlier` so far.
void order(c10::Stream earlier, c10::Stream later) {
  c10::Event event(earlier.device_type());
  event.record(earlier);
  event.block(later);
}

using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;

/// Sets the size of the segments that the allocator maps from now on for streams that have no large segment mapped.
/// Throws torch's exception where torch has no such setting, or accepts other sizes only.
void map_in(std::uint64_t page_bytes) {
  static const std::string others = Config::last_allocator_settings() + ",large_segment_size_mb:";
  if (Config::large_segment_size() == page_bytes) return;
  c10::CachingAllocator::setAllocatorSettings(others + std::to_string(page_bytes / kMiB));
}

}  // namespace

ChunkMemory::Source ChunkMemory::source_with(std::uint64_t page_bytes) const {
  return {page_bytes, c10::impl::VirtualGuardImpl(device_.type()).getStreamFromGlobalPool(device_), 0};
}

ChunkMemory::Source& ChunkMemory::source_of(std::uint64_t n_bytes) {
  for (Source& source : in_pages_)
    if (n_bytes % source.page_bytes == 0) return source;
  if (!other_) other_ = source_with(0);
  return *other_;
}

/// The allocator unmaps a stream's segments once none of their memory is in use, and drops the page size with them: it
/// is set again before the next allocation.
Result<void*> ChunkMemory::allocate(Source& source, std::uint64_t n_bytes) {
  return guard([&] {
    if (source.page_bytes > 0 && source.n_used == 0) map_in(source.page_bytes);
    const c10::Stream compute = at::accelerator::getCurrentStream(device_.index());
    const c10::StreamGuard on_it(source.stream);
    void* data = c10::GetAllocator(device_.type())->raw_allocate(n_bytes);
    order(source.stream, compute);
    ++source.n_used;
    return data;
  });
}

Result<void*> ChunkMemory::allocate(std::uint64_t n_bytes) { return allocate(source_of(n_bytes), n_bytes); }

void ChunkMemory::deallocate(void* data, std::uint64_t n_bytes) { deallocate(source_of(n_bytes), data); }

Result<castor_device_memory> ChunkMemory::memory() { return castor::device_memory(device_); }

void ChunkMemory::reset_peak() { reset_device_peak(device_); }

void ChunkMemory::deallocate(Source& source, void* data) {
  (void)guard([&] {
    order(at::accelerator::getCurrentStream(device_.index()), source.stream);
    c10::GetAllocator(device_.type())->raw_deallocate(data);
    --source.n_used;
  });
}

/// The bytes that the allocator reserves for one page show whether it maps pages of that size.
std::int32_t ChunkMemory::use_pages(std::uint64_t page_bytes) {
  if (!Config::use_expandable_segments()) return 0;
  in_pages_.push_back(source_with(page_bytes));
  const std::uint64_t before_bytes = device_memory(device_).reserved;
  const auto page = allocate(in_pages_.back(), page_bytes);
  const bool whole = page.ok() && device_memory(device_).reserved - before_bytes == page_bytes;
  if (page.ok()) deallocate(in_pages_.back(), *page);
  if (!whole) in_pages_.pop_back();
  return whole ? 1 : 0;
}

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

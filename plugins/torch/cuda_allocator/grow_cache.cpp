// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/runtime.h>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <utility>

#include "../allocator_share.h"
#include "../cache_growth.h"
#include "../device_memory.h"

namespace castor {
namespace {

namespace torch_allocator = c10::cuda::CUDACachingAllocator;
using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::SegmentInfo;

/// The lengths of the free blocks at the beginning and at the end.
MappedStretch stretch_of(const SegmentInfo& segment) {
  const auto free = [](const BlockInfo& block) { return block.allocated || block.active ? 0 : block.size; };
  const std::uint64_t end = segment.address + segment.total_size;
  return {segment.address, end, free(segment.blocks.front()), free(segment.blocks.back())};
}

/// Large blocks of the current stream outside of private pools. Made where the allocator's lock is held.
class CurrentStreamCache final : public GrowingCache {
 public:
  explicit CurrentStreamCache(c10::DeviceIndex device) : device_(device) {}

  CacheFigures figures() override {
    const castor_device_memory now = memory();
    const double allowed_bytes = torch_allocator::getMemoryFraction(device_) * static_cast<double>(now.total);
    return {torch_allocator::getDeviceStats(device_).num_alloc_retries, now.allocated, now.reserved,
            static_cast<std::uint64_t>(allowed_bytes)};
  }

  std::uint64_t device_free_bytes() override {
    std::size_t n_free = 0, n_total = 0;
    return cudaMemGetInfo(&n_free, &n_total) == cudaSuccess ? n_free : 0;
  }

  CacheLayout layout() override {
    void* const stream = c10::cuda::getCurrentCUDAStream(device_).stream();
    CacheLayout found;
    for (const SegmentInfo& segment : torch_allocator::snapshot().segments) {
      const bool mine =
          segment.device == device_ && segment.stream == stream && segment.is_large && segment.is_expandable;
      if (!mine || segment.owner_private_pool_id != c10::MempoolId_t{0, 0} || segment.blocks.empty()) continue;
      found.stretches.push_back(stretch_of(segment));
      for (const BlockInfo& block : segment.blocks)
        if (!block.allocated && !block.active) found.free_bytes.push_back(block.size);
    }
    std::sort(found.stretches.begin(), found.stretches.end(),
              [](const auto& a, const auto& b) { return a.begin < b.begin; });
    return found;
  }

  void* allocate(std::uint64_t n_bytes) override {
    try {
      return torch_allocator::raw_alloc(n_bytes);
    } catch (const c10::Error&) {
      return nullptr;
    }
  }

  void deallocate(void* block) override { torch_allocator::raw_delete(block); }

  void allow(std::uint64_t n_bytes) override {
    share_before_ = torch_allocator::getMemoryFraction(device_);
    const double share = static_cast<double>(n_bytes + 1) / static_cast<double>(memory().total);  // torch rounds down
    set_allocator_share(std::min(share, 1.0), device_);
  }

  void restore_limit() override { set_allocator_share(share_before_, device_); }

  void give_back() override { torch_allocator::emptyCache(); }

 private:
  castor_device_memory memory() const { return device_memory(c10::Device(c10::kCUDA, device_)); }

  const c10::DeviceIndex device_;
  double share_before_ = 1;
};

/// One per process at a time: a layout takes the locks of all devices' allocators.
std::atomic<bool> busy = false;

bool grow_at_miss() {
  static std::array<CacheGrowth, std::numeric_limits<c10::DeviceIndex>::max() + 1> by_device;
  const c10::DeviceIndex device = c10::cuda::current_device();
  if (c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None) return false;
  if (allocates_chunk() || torch_allocator::getMemoryFraction(device) >= 1) return false;
  CurrentStreamCache cache(device);
  return by_device.at(static_cast<std::size_t>(device)).at_miss(cache);
}

class GrowAtMiss final : public c10::FreeMemoryCallback {
 public:
  bool Execute() override {
    if (busy.exchange(true)) return false;
    bool grown = false;
    try {
      grown = grow_at_miss();
    } catch (const c10::Error&) {  // the allocator goes on by itself
    }
    busy = false;
    return grown;
  }
};

}  // namespace
}  // namespace castor

namespace c10 {
REGISTER_FREE_MEMORY_CALLBACK(castor_grow_cache, castor::GrowAtMiss);
}

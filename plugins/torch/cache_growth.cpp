// SPDX-License-Identifier: Apache-2.0
#include "cache_growth.h"

#include <castor/states/model_chunks.h>

#include <algorithm>
#include <limits>

namespace castor {
namespace {

constexpr std::uint64_t kRoundBytes = 2 * kMiB;   ///< torch's, of large allocations
constexpr std::uint64_t kProbeBytes = 64 * kMiB;  ///< more than the free part of two segments
constexpr std::uint64_t kUnbounded = std::numeric_limits<std::uint64_t>::max() / 2;

std::uint64_t round_down(std::uint64_t n_bytes, std::uint64_t unit_bytes) { return n_bytes / unit_bytes * unit_bytes; }

bool is_free(const MappedStretch& stretch) { return stretch.free_at_end_bytes == stretch.end - stretch.begin; }

std::uint64_t gap_after(std::span<const MappedStretch> stretches, std::size_t i) {
  return i + 1 < stretches.size() ? stretches[i + 1].begin - stretches[i].end : kUnbounded;
}

/// Free and unmapped bytes in a row, from the free end of stretch `i` on.
std::uint64_t room_at(std::span<const MappedStretch> stretches, std::size_t i) {
  std::uint64_t n_bytes = stretches[i].free_at_end_bytes;
  for (; i + 1 < stretches.size(); ++i) {
    n_bytes += gap_after(stretches, i) + stretches[i + 1].free_at_begin_bytes;
    if (!is_free(stretches[i + 1])) return n_bytes;
  }
  return kUnbounded;
}

/// Blocks that are allocated until the end.
class Held {
 public:
  explicit Held(GrowingCache& cache) : cache_(cache) {}
  ~Held() {
    for (void* block : blocks_) cache_.deallocate(block);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  bool add(std::uint64_t n_bytes) {
    void* const block = cache_.allocate(n_bytes);
    if (block != nullptr) blocks_.push_back(block);
    return block != nullptr;
  }

 private:
  GrowingCache& cache_;
  std::vector<void*> blocks_;
};

/// Maps the first gap that could be taken for a larger allocation, which no layout shows where it is the first of all.
bool show_first_gap(GrowingCache& cache) {
  Held held(cache);
  std::vector<std::uint64_t> free_bytes = cache.layout().free_bytes;
  std::sort(free_bytes.rbegin(), free_bytes.rend());  // so that each is taken by the allocation of its size
  for (const std::uint64_t n_bytes : free_bytes)
    if (n_bytes >= kProbeBytes && !held.add(n_bytes)) return false;
  const auto left =
      cache.layout().free_bytes;  // large where allocations go to another pool than the one that is looked at
  const auto large = [](std::uint64_t n_bytes) { return n_bytes >= kProbeBytes; };
  return std::none_of(left.begin(), left.end(), large) && held.add(kProbeBytes);
}

/// Leaves `spared_bytes` below the limit.
bool grow(GrowingCache& cache, std::uint64_t spared_bytes) {
  const CacheFigures before = cache.figures();
  const std::uint64_t probe_bytes = kProbeBytes + kAllocatorSegmentBytes;
  if (before.reserved_bytes + probe_bytes + spared_bytes > before.allowed_bytes) return false;
  // A failure would be reported as torch's own, while the allocator's lock is held.
  if (cache.device_free_bytes() < before.allowed_bytes - before.reserved_bytes + kProbeBytes) return false;
  if (!show_first_gap(cache)) return true;
  const CacheLayout layout = cache.layout();
  const CacheFigures now = cache.figures();
  if (now.reserved_bytes + spared_bytes > now.allowed_bytes || layout.free_bytes.empty()) return true;
  const std::uint64_t largest_bytes = *std::max_element(layout.free_bytes.begin(), layout.free_bytes.end());
  const std::uint64_t left_bytes = now.allowed_bytes - now.reserved_bytes - spared_bytes;
  const std::uint64_t n_bytes = plan_growth(layout.stretches, left_bytes, largest_bytes);
  if (n_bytes < 2 * kProbeBytes) return true;
  cache.allow(now.reserved_bytes + n_bytes);
  Held(cache).add(n_bytes);
  cache.restore_limit();
  if (cache.figures().reserved_bytes > now.allowed_bytes) cache.give_back();
  return true;
}

}  // namespace

std::uint64_t plan_growth(std::span<const MappedStretch> stretches, std::uint64_t left_bytes,
                          std::uint64_t largest_free_bytes) {
  left_bytes = round_down(left_bytes, kAllocatorSegmentBytes);
  if (left_bytes == 0) return 0;
  std::uint64_t asked_bytes = 0, most_room_bytes = 0;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const std::uint64_t gap_bytes = gap_after(stretches, i), mapped_bytes = std::min(left_bytes, gap_bytes);
    const std::uint64_t ask_bytes = round_down(stretches[i].free_at_end_bytes + mapped_bytes, kRoundBytes);
    const std::uint64_t joined_bytes = mapped_bytes == gap_bytes ? stretches[i + 1].free_at_begin_bytes : 0;
    const std::uint64_t becomes_bytes = stretches[i].free_at_end_bytes + mapped_bytes + joined_bytes;
    if (ask_bytes > most_room_bytes && becomes_bytes > largest_free_bytes) {
      asked_bytes = ask_bytes;
      largest_free_bytes = becomes_bytes;
    }
    most_room_bytes = std::max(most_room_bytes, room_at(stretches, i));
  }
  return asked_bytes;
}

/// As much as is allocated where the cache was given back, less what steps differ by.
bool CacheGrowth::is_at_the_place(std::uint64_t allocated_bytes) const {
  return retried_at_bytes_ && allocated_bytes >= *retried_at_bytes_ - *retried_at_bytes_ / 16;
}

void CacheGrowth::note_retry() {
  if (has_grown_ && !is_at_the_place(last_miss_bytes_))
    spared_bytes_ *= 2;  // what has grown left too little to others
  else
    retried_at_bytes_ = last_miss_bytes_;
  has_grown_ = false;
}

bool CacheGrowth::should_grow(const CacheFigures& now) {
  if (now.allowed_bytes != allowed_bytes_) {
    *this = CacheGrowth();
    allowed_bytes_ = now.allowed_bytes;
    n_retries_ = now.n_retries;
  }
  if (now.n_retries > n_retries_) note_retry();
  n_retries_ = now.n_retries;
  last_miss_bytes_ = now.allocated_bytes;
  return is_at_the_place(now.allocated_bytes);
}

bool CacheGrowth::at_miss(GrowingCache& cache) {
  if (!should_grow(cache.figures()) || !grow(cache, spared_bytes_)) return false;
  has_grown_ = true;
  return true;
}

}  // namespace castor

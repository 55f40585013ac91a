// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/bytes.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cache_growth.h"

namespace castor {

/// A double of torch's CUDA allocator with expandable segments, for large blocks of one stream: addresses without
/// memory. Small blocks are bytes of another pool, below the same limit. Takes the best fit, grows at the first
/// addresses with room, compares its limit with the size of the whole allocation, and gives back its cache where that
/// is exceeded, as c10/cuda/CUDACachingAllocator.cpp does (torch 2.11).
class ExpandableCache final : public GrowingCache {
 public:
  explicit ExpandableCache(std::uint64_t allowed_bytes) { now_.allowed_bytes = allowed_bytes; }

  /// Null: out of memory.
  void* allocate(std::uint64_t n_bytes) override {
    auto block = best_fit(n_bytes);
    if (block == blocks_.end() && missed()) block = best_fit(n_bytes);
    const std::uint64_t rounded_bytes = n_bytes < 10 * kMiB ? kSegmentBytes : round_up(n_bytes, 2 * kMiB);
    if (block == blocks_.end() && !make_room(rounded_bytes)) return nullptr;
    if (block == blocks_.end()) block = grown(rounded_bytes);
    if (block->second.n_bytes - n_bytes > kMiB) split(block, n_bytes);
    block->second.state = kTaken;
    now_.allocated_bytes += block->second.n_bytes;
    return reinterpret_cast<void*>(block->first);
  }

  void deallocate(void* data) override {
    const auto block = blocks_.find(reinterpret_cast<std::uint64_t>(data));
    if (block == blocks_.end() || block->second.state != kTaken) throw std::logic_error("not allocated");
    now_.allocated_bytes -= block->second.n_bytes;
    become(block, kFree);
  }

  /// False: out of memory.
  bool allocate_small(std::uint64_t n_bytes) {
    if (small_bytes_ + n_bytes > small_reserved_bytes_) {
      (void)missed();
      const std::uint64_t lacking_bytes = round_up(small_bytes_ + n_bytes - small_reserved_bytes_, kSmallSegmentBytes);
      if (!make_room(lacking_bytes)) return false;
      reserve(lacking_bytes);
      small_reserved_bytes_ += lacking_bytes;
    }
    small_bytes_ += n_bytes;
    now_.allocated_bytes += n_bytes;
    return true;
  }

  void deallocate_small(std::uint64_t n_bytes) {
    small_bytes_ -= n_bytes;
    now_.allocated_bytes -= n_bytes;
  }

  void allow(std::uint64_t n_bytes) override { before_bytes_ = std::exchange(now_.allowed_bytes, n_bytes); }
  void restore_limit() override { now_.allowed_bytes = before_bytes_; }
  void set_device_free(std::uint64_t n_bytes) { device_free_bytes_ = n_bytes; }

  /// Of each free block the whole segments.
  void give_back() override {
    const std::uint64_t small_needed_bytes = round_up(small_bytes_, kSmallSegmentBytes);
    now_.reserved_bytes -= std::exchange(small_reserved_bytes_, small_needed_bytes) - small_needed_bytes;
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
      if (block->second.state != kFree) continue;
      const std::uint64_t begin = round_up(block->first, kSegmentBytes);
      const std::uint64_t end = (block->first + block->second.n_bytes) / kSegmentBytes * kSegmentBytes;
      if (end <= begin) continue;
      if (begin > block->first) split(block, begin - block->first), ++block;
      if (block->second.n_bytes > end - begin) split(block, end - begin);
      now_.reserved_bytes -= end - begin;
      block = become(block, kUnmapped);
    }
  }

  CacheFigures figures() override { return now_; }
  std::uint64_t device_free_bytes() override { return device_free_bytes_; }

  CacheLayout layout() override {
    CacheLayout found;
    bool mapped = false;
    for (const auto& [address, block] : blocks_) {
      const std::uint64_t free_bytes = block.state == kFree ? block.n_bytes : 0;
      if (free_bytes != 0) found.free_bytes.push_back(free_bytes);
      if (block.state != kUnmapped) {
        if (!mapped) found.stretches.push_back({address, address, free_bytes, 0});
        found.stretches.back().end = address + block.n_bytes;
        found.stretches.back().free_at_end_bytes = free_bytes;
      }
      mapped = block.state != kUnmapped;
    }
    return found;
  }

  void grow_with(CacheGrowth* growth) { growth_ = growth; }
  std::uint64_t most_reserved_bytes() const { return most_reserved_bytes_; }

 private:
  enum State { kUnmapped, kFree, kTaken };
  struct Block {
    std::uint64_t n_bytes;
    State state;
  };
  using Blocks = std::map<std::uint64_t, Block>;
  static constexpr std::uint64_t kSegmentBytes = 20 * kMiB;
  static constexpr std::uint64_t kSmallSegmentBytes = 2 * kMiB;
  static constexpr std::uint64_t kAddresses = 8192 * kSegmentBytes;

  static std::uint64_t round_up(std::uint64_t n_bytes, std::uint64_t unit) {
    return (n_bytes + unit - 1) / unit * unit;
  }

  /// True: the cache has changed.
  bool missed() {
    if (growth_ == nullptr || growing_) return false;
    growing_ = true;
    const bool changed = growth_->at_miss(*this);
    growing_ = false;
    return changed;
  }

  /// False: there is none below the limit.
  bool make_room(std::uint64_t n_bytes) {
    if (now_.reserved_bytes + n_bytes <= now_.allowed_bytes) return true;
    ++now_.n_retries;
    give_back();
    return now_.reserved_bytes + n_bytes <= now_.allowed_bytes;
  }

  void reserve(std::uint64_t n_bytes) {
    now_.reserved_bytes += n_bytes;
    most_reserved_bytes_ = std::max(most_reserved_bytes_, now_.reserved_bytes);
  }

  /// With the unmapped addresses behind it.
  std::uint64_t expandable_bytes(Blocks::iterator block) {
    const auto next = std::next(block);
    return block->second.n_bytes +
           (next != blocks_.end() && next->second.state == kUnmapped ? next->second.n_bytes : 0);
  }

  /// The smallest free block, unless the next larger one can expand to less.
  Blocks::iterator best_fit(std::uint64_t n_bytes) {
    std::vector<Blocks::iterator> fit;
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block)
      if (block->second.state == kFree && block->second.n_bytes >= n_bytes) fit.push_back(block);
    if (fit.empty()) return blocks_.end();
    std::stable_sort(fit.begin(), fit.end(), [](auto a, auto b) { return a->second.n_bytes < b->second.n_bytes; });
    std::size_t i = 0;
    while (i + 1 < fit.size() && expandable_bytes(fit[i + 1]) < expandable_bytes(fit[i])) ++i;
    return fit[i];
  }

  void split(Blocks::iterator block, std::uint64_t n_bytes) {
    blocks_.emplace(block->first + n_bytes, Block{block->second.n_bytes - n_bytes, block->second.state});
    block->second.n_bytes = n_bytes;
  }

  /// Merges with neighbours of the same state.
  Blocks::iterator become(Blocks::iterator block, State state) {
    block->second.state = state;
    if (const auto next = std::next(block); next != blocks_.end() && next->second.state == state) {
      block->second.n_bytes += next->second.n_bytes;
      blocks_.erase(next);
    }
    if (block == blocks_.begin() || std::prev(block)->second.state != state) return block;
    const auto before = std::prev(block);
    before->second.n_bytes += block->second.n_bytes;
    blocks_.erase(block);
    return before;
  }

  /// Free and unmapped bytes from there on.
  std::uint64_t room(Blocks::iterator block) {
    std::uint64_t n_bytes = 0;
    for (; block != blocks_.end() && block->second.state != kTaken; ++block) n_bytes += block->second.n_bytes;
    return n_bytes;
  }

  Blocks::iterator grown(std::uint64_t n_bytes) {
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
      if (block->second.state != kUnmapped) continue;
      auto first = block != blocks_.begin() && std::prev(block)->second.state == kFree ? std::prev(block) : block;
      if (room(first) < n_bytes) continue;
      if (first == block) first = map(block, std::min(n_bytes, block->second.n_bytes));
      while (first->second.n_bytes < n_bytes) {
        const auto next = std::next(first);
        first = map(next, std::min(n_bytes - first->second.n_bytes, next->second.n_bytes));
      }
      return first;
    }
    throw std::logic_error("no addresses");
  }

  Blocks::iterator map(Blocks::iterator block, std::uint64_t n_bytes) {
    const std::uint64_t mapped_bytes = round_up(n_bytes, kSegmentBytes);
    if (mapped_bytes < block->second.n_bytes) split(block, mapped_bytes);
    reserve(mapped_bytes);
    return become(block, kFree);
  }

  Blocks blocks_ = {{kSegmentBytes, {kAddresses, kUnmapped}}};
  CacheFigures now_;
  std::uint64_t before_bytes_ = 0, device_free_bytes_ = kAddresses;
  std::uint64_t most_reserved_bytes_ = 0, small_bytes_ = 0, small_reserved_bytes_ = 0;
  CacheGrowth* growth_ = nullptr;
  bool growing_ = false;
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/io/extent_allocator.h>

#include <algorithm>
#include <iterator>
#include <string>

#include <castor/memory/bytes.h>

namespace castor {
namespace {

std::string claimed(const Extent& extent) {
  return std::to_string(extent.n_bytes) + " bytes at offset " + std::to_string(extent.offset_bytes) + " are claimed";
}

}  // namespace

ExtentAllocator::ExtentAllocator(std::uint64_t limit_bytes)
    : limit_bytes_(std::min(limit_bytes, kUnlimited) / kGrainBytes * kGrainBytes) {}

void ExtentAllocator::add_gap(Extent gap) {
  gaps_.emplace(gap.offset_bytes, gap.n_bytes);
  gaps_by_size_.emplace(gap.n_bytes, gap.offset_bytes);
}

Extent ExtentAllocator::remove_gap(Gap gap) {
  const Extent removed{gap->first, gap->second};
  gaps_by_size_.erase({removed.n_bytes, removed.offset_bytes});
  gaps_.erase(gap);
  return removed;
}

std::uint64_t ExtentAllocator::largest_free_bytes() const {
  const auto beyond_end = limit_bytes_ - end_bytes_;
  return gaps_by_size_.empty() ? beyond_end : std::max(beyond_end, gaps_by_size_.rbegin()->first);
}

Result<Extent> ExtentAllocator::allocate(std::uint64_t n_bytes) {
  if (n_bytes == 0) throw ContractViolation("an extent of 0 bytes");
  if (n_bytes > largest_free_bytes())
    return Error{ErrorKind::does_not_fit,
                 "an extent of " + format_bytes(n_bytes) + " was asked for, the largest free one has " +
                     format_bytes(largest_free_bytes()) + " of a file of at most " + format_bytes(limit_bytes_)};
  const auto whole_bytes = align_up(n_bytes, kGrainBytes);
  allocated_bytes_ += whole_bytes;
  const auto best = gaps_by_size_.lower_bound({whole_bytes, 0});
  if (best == gaps_by_size_.end()) {
    const Extent grown{end_bytes_, whole_bytes};
    end_bytes_ += whole_bytes;
    return grown;
  }
  const Extent taken{best->second, whole_bytes};
  take_from(gaps_.find(best->second), taken);
  return taken;
}

/// Takes `extent`, which is inside `gap`; the rest of the gap before and behind it stays free.
void ExtentAllocator::take_from(Gap gap, const Extent& extent) {
  const Extent whole = remove_gap(gap);
  const auto before_bytes = extent.offset_bytes - whole.offset_bytes;
  const auto behind_bytes = whole.n_bytes - before_bytes - extent.n_bytes;
  if (before_bytes > 0) add_gap({whole.offset_bytes, before_bytes});
  if (behind_bytes > 0) add_gap({extent.offset_bytes + extent.n_bytes, behind_bytes});
}

/// The last gap that begins at `offset_bytes` or before; end() where there is none.
ExtentAllocator::Gap ExtentAllocator::gap_at_or_before(std::uint64_t offset_bytes) {
  const auto next = gaps_.upper_bound(offset_bytes);
  return next == gaps_.begin() ? gaps_.end() : std::prev(next);
}

Result<void> ExtentAllocator::check_whole(const Extent& extent) const {
  const auto in_grains = [](std::uint64_t n) { return n % kGrainBytes == 0; };
  if (extent.n_bytes == 0 || !in_grains(extent.n_bytes) || !in_grains(extent.offset_bytes))
    return Error{ErrorKind::io, claimed(extent) + ", which are no whole blocks of " + format_bytes(kGrainBytes)};
  if (extent.n_bytes > limit_bytes_ || extent.offset_bytes > limit_bytes_ - extent.n_bytes)
    return Error{ErrorKind::io, claimed(extent) + " of a file of at most " + std::to_string(limit_bytes_)};
  return {};
}

Result<void> ExtentAllocator::claim(const Extent& extent) {
  CASTOR_TRY(check_whole(extent));
  if (extent.offset_bytes >= end_bytes_) {
    if (extent.offset_bytes > end_bytes_) add_gap({end_bytes_, extent.offset_bytes - end_bytes_});
    end_bytes_ = extent.offset_bytes + extent.n_bytes;
  } else {
    const auto gap = gap_at_or_before(extent.offset_bytes);
    if (gap == gaps_.end() || gap->first + gap->second < extent.offset_bytes + extent.n_bytes)
      return Error{ErrorKind::io, claimed(extent) + ", some of which are taken already"};
    take_from(gap, extent);
  }
  allocated_bytes_ += extent.n_bytes;
  return {};
}

std::vector<Extent> ExtentAllocator::gaps() const {
  std::vector<Extent> all;
  for (const auto& [offset_bytes, n_bytes] : gaps_) all.push_back({offset_bytes, n_bytes});
  return all;
}

void ExtentAllocator::check_taken(const Extent& extent) const {
  const auto end = extent.offset_bytes + extent.n_bytes;
  const auto next = gaps_.lower_bound(extent.offset_bytes);
  bool free_already = extent.n_bytes == 0 || end > end_bytes_ || (next != gaps_.end() && next->first < end);
  if (next != gaps_.begin()) {
    const auto before = std::prev(next);
    free_already = free_already || before->first + before->second > extent.offset_bytes;
  }
  if (free_already || extent.offset_bytes % kGrainBytes != 0 || extent.n_bytes % kGrainBytes != 0)
    throw ContractViolation("the extent of " + std::to_string(extent.n_bytes) + " bytes at " +
                            std::to_string(extent.offset_bytes) + " is not allocated");
}

void ExtentAllocator::free(const Extent& extent) {
  check_taken(extent);
  allocated_bytes_ -= extent.n_bytes;
  Extent merged = extent;
  auto next = gaps_.lower_bound(extent.offset_bytes);
  if (next != gaps_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == merged.offset_bytes)
      merged = {before->first, remove_gap(before).n_bytes + merged.n_bytes};
  }
  if (next != gaps_.end() && merged.offset_bytes + merged.n_bytes == next->first)
    merged.n_bytes += remove_gap(next).n_bytes;
  if (merged.offset_bytes + merged.n_bytes == end_bytes_)
    end_bytes_ = merged.offset_bytes;
  else
    add_gap(merged);
}

}  // namespace castor

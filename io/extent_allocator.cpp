// SPDX-License-Identifier: Apache-2.0
#include <castor/io/extent_allocator.h>

#include <algorithm>
#include <string>

#include <castor/memory/bytes.h>

namespace castor {

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

std::uint64_t ExtentAllocator::largest_bytes() const {
  const auto beyond_end = limit_bytes_ - end_bytes_;
  return gaps_by_size_.empty() ? beyond_end : std::max(beyond_end, gaps_by_size_.rbegin()->first);
}

Result<Extent> ExtentAllocator::allocate(std::uint64_t n_bytes) {
  if (n_bytes == 0) throw ContractViolation("an extent of 0 bytes");
  if (n_bytes > largest_bytes())
    return Error{ErrorKind::does_not_fit,
                 "an extent of " + format_bytes(n_bytes) + " was asked for, the largest free one has " +
                     format_bytes(largest_bytes()) + " of a file of at most " + format_bytes(limit_bytes_)};
  const auto whole_bytes = align_up(n_bytes, kGrainBytes);
  allocated_bytes_ += whole_bytes;
  const auto best = gaps_by_size_.lower_bound({whole_bytes, 0});
  if (best == gaps_by_size_.end()) {
    const Extent grown{end_bytes_, whole_bytes};
    end_bytes_ += whole_bytes;
    return grown;
  }
  const Extent gap = remove_gap(gaps_.find(best->second));
  if (gap.n_bytes > whole_bytes) add_gap({gap.offset_bytes + whole_bytes, gap.n_bytes - whole_bytes});
  return Extent{gap.offset_bytes, whole_bytes};
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

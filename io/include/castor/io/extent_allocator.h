// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <castor/memory/result.h>

namespace castor {

/// A run of bytes in a file.
struct Extent {
  std::uint64_t offset_bytes = 0;
  std::uint64_t n_bytes = 0;
};

/// Hands out the bytes of a file as extents; touches no file.
///
/// Best fit: the smallest gap that is large enough, the lowest of equal ones; where no gap is, the file grows. Freed
/// extents merge with their free neighbours at once, and a gap at the end moves the file's end back, so nothing leaks
/// and the largest gap is always known. Cost: O(log gaps).
///
/// Threads: one at a time.
class ExtentAllocator {
 public:
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
  /// Offsets and lengths are multiples of this.
  static constexpr std::uint64_t kGrainBytes = 4096;

  /// Hands out bytes below `limit_bytes` only.
  explicit ExtentAllocator(std::uint64_t limit_bytes = kUnlimited);

  /// An extent of `n_bytes` rounded up to whole grains. Requires: n_bytes > 0 (ContractViolation).
  /// Errors: does_not_fit, with the figures; then nothing has changed.
  Result<Extent> allocate(std::uint64_t n_bytes);
  /// Takes exactly these bytes, for a file that is opened again; the bytes between the end and them become a gap.
  /// Errors: io, with the figures, where one of them is taken or beyond the limit, where they are no whole grains, or
  /// where there are none; then nothing has changed.
  Result<void> claim(const Extent& extent);
  /// Frees `extent`. Requires: it was allocated or claimed and not freed since (ContractViolation where bytes of it are
  /// free already).
  void free(const Extent& extent);

  std::uint64_t allocated_bytes() const { return allocated_bytes_; }
  /// The end of the last extent: the file needs no byte beyond.
  std::uint64_t end_bytes() const { return end_bytes_; }
  std::size_t n_gaps() const { return gaps_.size(); }
  /// The free bytes before the end, in the order of their offsets.
  std::vector<Extent> gaps() const;
  /// The largest extent that could be allocated now.
  std::uint64_t largest_free_bytes() const;

 private:
  using Gap = std::map<std::uint64_t, std::uint64_t>::iterator;
  void add_gap(Extent gap);
  Extent remove_gap(Gap gap);
  void check_taken(const Extent& extent) const;
  Result<void> check_whole(const Extent& extent) const;
  void take_from(Gap gap, const Extent& extent);
  Gap gap_at_or_before(std::uint64_t offset_bytes);

  std::uint64_t limit_bytes_;
  std::uint64_t end_bytes_ = 0;
  std::uint64_t allocated_bytes_ = 0;
  std::map<std::uint64_t, std::uint64_t> gaps_;                     // offset → bytes
  std::set<std::pair<std::uint64_t, std::uint64_t>> gaps_by_size_;  // the same as (bytes, offset)
};

}  // namespace castor

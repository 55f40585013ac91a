// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <castor/plan/move_planner.h>

namespace castor {

/// The tiers whose room is limited.
inline constexpr std::array<Tier, 2> kLimitedTiers = {Tier::device, Tier::host};

/// Moments `first`, first + 1 … of an iteration that repeats, `count` of them: a period from each to the next.
struct Periods {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// The time from one use of a chunk to its next, in the three parts that a Stay names.
struct TimeOfStay {
  Periods at_use, after, before_next;
  std::uint32_t until_next_use() const { return at_use.count + after.count + before_next.count; }
};

/// The time of use number `use` of `chunk`. Requires: a chunk with uses.
TimeOfStay time_of_stay(const MoveProblem& problem, const PlannedChunk& chunk, std::size_t use);

/// Bytes per period on device and host.
using BytesByPeriod = std::array<std::vector<std::int64_t>, 2>;

/// The room of the problem. No limit becomes a limit so high that sums of bytes stay in range.
BytesByPeriod room_of(const MoveProblem& problem);

/// Bytes that are added to many periods and read once, in the end.
///
/// Cost: two sums an addition, one per period for the read.
class BytesAdded {
 public:
  explicit BytesAdded(std::uint32_t n_moments);

  void add(Tier tier, Periods periods, std::int64_t n_bytes);
  /// The sum of `before` and the added bytes.
  BytesByPeriod onto(BytesByPeriod before) const;

 private:
  BytesByPeriod steps_;  ///< difference of each period from the one before it
};

/// Free bytes per period on device and host.
///
/// Cost: a stay lasts for thousands of periods, so these are kept in blocks of blocks that store an added sum and their
/// least value: a change or a read of any number of periods costs about kBlock per level.
class Room {
 public:
  explicit Room(const BytesByPeriod& bytes);

  std::int64_t at(Tier tier, std::uint32_t moment) const { return lines_[index(tier)].least(moment, moment + 1); }
  /// True where each of `periods` has `n_bytes`.
  bool has(Tier tier, Periods periods, std::int64_t n_bytes) const;
  void add(Tier tier, Periods periods, std::int64_t n_bytes);

 private:
  static constexpr std::size_t kBlock = 16;

  /// The periods of a tier. Each level above the first has one entry for a block of the level below, the highest level
  /// a single entry.
  class Line {
   public:
    explicit Line(const std::vector<std::int64_t>& bytes);

    std::size_t size() const { return levels_.front().least.size(); }
    std::int64_t least() const { return levels_.back().least[0]; }
    std::int64_t least(std::size_t begin, std::size_t end) const;
    void add(std::size_t begin, std::size_t end, std::int64_t n_bytes);

   private:
    struct Level {
      std::vector<std::int64_t> least;  ///< of each block, without the sums added to larger blocks that contain it
      std::vector<std::int64_t> added;  ///< sum added to each block as a whole
    };

    void refresh(std::size_t level, std::size_t block);

    std::vector<Level> levels_;
  };

  std::array<Line, 2> lines_;
};

}  // namespace castor

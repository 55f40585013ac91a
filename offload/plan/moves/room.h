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

/// Of use `use` of `chunk`. Requires: a chunk with uses.
TimeOfStay time_of_stay(const MoveProblem& problem, const PlannedChunk& chunk, std::size_t use);

/// Bytes per period on device and host.
using BytesByPeriod = std::array<std::vector<std::int64_t>, 2>;

/// What the problem allows; no limit becomes one so high that sums of bytes stay in range.
BytesByPeriod room_of(const MoveProblem& problem);

/// Bytes that are added to many periods and looked at once, in the end.
///
/// Cost: an addition two sums, a look one per period.
class BytesAdded {
 public:
  explicit BytesAdded(std::uint32_t n_moments);

  void add(Tier tier, Periods periods, std::int64_t n_bytes);
  /// Of `before` and what was added.
  BytesByPeriod onto(BytesByPeriod before) const;

 private:
  BytesByPeriod steps_;  ///< from the period before to each
};

/// Bytes per period on device and host: what is free, or what is used.
///
/// Cost: stays last for thousands of periods, so these are kept in blocks of blocks that take a sum and know their least
/// value: a change or a look at any number of periods costs about kBlock per level.
class Room {
 public:
  explicit Room(const BytesByPeriod& bytes);

  std::int64_t at(Tier tier, std::uint32_t moment) const { return lines_[index(tier)].least(moment, moment + 1); }
  /// Whether there are `n_bytes` in each of `periods`.
  bool has(Tier tier, Periods periods, std::int64_t n_bytes) const;
  void add(Tier tier, Periods periods, std::int64_t n_bytes);

 private:
  static constexpr std::size_t kBlock = 16;

  /// The periods of a tier. Each level above has one entry for a block of the level below, the highest a single one.
  class Line {
   public:
    explicit Line(const std::vector<std::int64_t>& bytes);

    std::size_t size() const { return levels_.front().least.size(); }
    std::int64_t least() const { return levels_.back().least[0]; }
    std::int64_t least(std::size_t begin, std::size_t end) const;
    void add(std::size_t begin, std::size_t end, std::int64_t n_bytes);

   private:
    struct Level {
      std::vector<std::int64_t> least;  ///< in each block, but for what was added to larger ones that it is part of
      std::vector<std::int64_t> added;  ///< to each as a whole
    };

    void refresh(std::size_t level, std::size_t block);

    std::vector<Level> levels_;
  };

  std::array<Line, 2> lines_;
};

}  // namespace castor

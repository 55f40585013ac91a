// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <castor/offload/move_planner.h>

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

/// Bytes per period on device and host: what is free, or what is used.
///
/// Cost: stays last for thousands of periods, so these are kept in blocks that take a sum and know their least value: a
/// change or a look at `count` periods costs count / kBlock + kBlock.
class Room {
 public:
  /// What the problem allows; no limit becomes one so high that sums of bytes stay in range.
  explicit Room(const MoveProblem& problem);

  std::int64_t at(Tier tier, std::uint32_t moment) const {
    const Line& line = lines_[index(tier)];
    return line.rest[moment] + line.added[moment / kBlock];
  }
  std::int64_t least(Tier tier, Periods periods) const;
  void add(Tier tier, Periods periods, std::int64_t n_bytes);

 private:
  static constexpr std::size_t kBlock = 64;

  /// The periods of a tier; each has the sum of its own rest and of what its block has been added.
  struct Line {
    std::vector<std::int64_t> rest;          ///< by period
    std::vector<std::int64_t> added, least;  ///< by block; the least of its rests

    std::int64_t least_of(std::size_t begin, std::size_t end) const;
    void add(std::size_t begin, std::size_t end, std::int64_t n_bytes);
    void add_within(std::size_t begin, std::size_t end, std::int64_t n_bytes);
  };

  std::array<Line, 2> lines_;
};

}  // namespace castor

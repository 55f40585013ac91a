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
};

/// Of use `use` of `chunk`. Requires: a chunk with uses.
TimeOfStay time_of_stay(const MoveProblem& problem, const PlannedChunk& chunk, std::size_t use);

/// Bytes per period on device and host: what is free, or what is used.
class Room {
 public:
  /// What the problem allows; no limit becomes one so high that sums of bytes stay in range.
  explicit Room(const MoveProblem& problem);

  std::int64_t at(Tier tier, std::uint32_t moment) const { return at_[index(tier)][moment]; }
  std::int64_t least(Tier tier, Periods periods) const;
  void add(Tier tier, Periods periods, std::int64_t n_bytes);

 private:
  std::array<std::vector<std::int64_t>, 2> at_;
};

}  // namespace castor

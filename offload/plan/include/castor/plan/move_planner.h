// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <castor/memory/result.h>
#include <castor/plan/access_trace.h>
#include <castor/plan/links.h>
#include <castor/plan/places.h>

namespace castor {

/// One moment at which a chunk is needed.
struct ChunkUse {
  std::uint32_t moment = 0;
  Tier tier = Tier::device;  ///< device or host
  Access access = Access::read;
  bool dropped = false;  ///< its owner forgets the contents afterwards; the next use overwrites them
  /// What of the contents comes from the device's memory to the host meanwhile, whatever the plan (gradients).
  std::uint64_t arriving_bytes = 0;
  /// Moments before the use for which the chunk must have its place in `tier`, so that it can arrive meanwhile.
  std::uint32_t n_ahead = 0;
  /// Moments after a use that changes it for which the chunk keeps its place in `tier`, so that it can leave meanwhile.
  std::uint32_t n_behind = 0;
};

/// A chunk and its uses in one iteration.
struct PlannedChunk {
  std::uint64_t n_bytes = 0;
  std::vector<ChunkUse> uses;  ///< by rising moment, one a moment
  /// The tiers on which it may rest between its uses; where one is needed and not among them, it comes for the use alone
  /// (and up to n_ahead moments before it). kNowhere for a chunk without uses and without contents, which takes no room.
  Places rest = kAnywhere;
};

/// An iteration that repeats: what is needed when, and the room for it.
struct MoveProblem {
  std::uint32_t n_moments = 0;
  std::vector<PlannedChunk> chunks;
  /// Bytes that chunks may take from each moment to the next, n_moments of them for device and host.
  std::array<std::vector<std::uint64_t>, 2> room_bytes;
  std::vector<bool> beside;  ///< by moment: Moment::beside; none is where it is empty
  std::vector<bool> joins;   ///< by moment: AccessTrace::joins; none does where it is empty
  LinkCosts costs;
  bool nvme = false;  ///< there is a tier below the host; its room is not limited
  /// Between uses at most so many moments apart a chunk may also be where it may not rest.
  std::uint32_t n_together = 0;
};

/// Where a chunk is around one of its uses.
struct Stay {
  /// While the moment that uses it runs, and n_behind more of the use. Copies that the use makes stale are there until then.
  Places at_use = kNowhere;
  Places after = kNowhere;        ///< from then on
  Places before_next = kNowhere;  ///< in the n_ahead moments before its next use; `after` where no use has any
};

/// What a byte of room is worth from each moment to the next, in seconds of the links, on device and host.
using RoomPrices = std::array<std::vector<double>, 2>;

/// The copies of every chunk through the iteration. The end leads to the beginning: repeating it moves the same bytes
/// each time.
struct MovePlan {
  std::vector<std::vector<Stay>> stays;  ///< by chunk and use; of a chunk that nobody uses one, its rest
  LinkBytes moved;                       ///< per iteration
  double link_seconds = 0;               ///< cost of `moved`, as if the links worked one after the other
  double bound_seconds = 0;              ///< no plan costs less; equal to link_seconds where that is proven best
  std::array<std::vector<std::uint64_t>, 2> used_bytes;  ///< of device and host, from each moment to the next
  RoomPrices prices;                                     ///< that make the bound

  /// The most that chunks take of `tier`, device or host.
  std::uint64_t peak_bytes(Tier tier) const;
};

/// Decides for every chunk and every time between two uses which tiers keep it, so that the links carry least and no
/// tier holds more than its room. Pure.
///
/// Method: every chunk takes its cheapest way around the iteration under prices for room (a shortest path over the sets
/// of tiers that hold it), and prices rise where a tier is overfull: a Lagrangian relaxation, which also gives the lower
/// bound. Ways that fit together are found by inserting chunk after chunk; where a gap to the bound remains, all ways
/// that could close it are tried, up to a limit. See docs/planning.md.
///
/// The search begins with the prices `first`, best those of a plan for a problem that differs little; empty, with nothing.
///
/// Cost: about linear in uses times rounds of prices; 0.1 to 0.3 s for 6000 chunks.
/// Errors: does_not_fit with the moment at which what is needed is more than the room, or where no placement was found
/// without a tier below the host.
Result<MovePlan> plan_moves(const MoveProblem& problem, const RoomPrices& first = {});

/// Notes which moments run beside the thread: of those that `moments` names the ones that need nothing on the device and to
/// which nothing comes. In the others something came up meanwhile that is the thread's; they count as its own.
void set_beside(MoveProblem& problem, std::vector<bool> moments);

/// The problem that a recorded iteration poses: chunks by ChunkId, `n_bytes[id]` each. Room, costs and nvme are for the
/// caller to fill in.
MoveProblem problem_of(const AccessTrace& trace, std::span<const std::uint64_t> n_bytes);

}  // namespace castor

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
  /// Bytes of the contents that are copied from the device's memory to the host during the use, under every plan
  /// (gradients).
  std::uint64_t arriving_bytes = 0;
  /// Moments before the use for which the chunk already takes room in `tier`, so that it can arrive meanwhile.
  std::uint32_t n_ahead = 0;
  /// Moments after a use that changes the chunk for which it still takes room in `tier`, so that it can leave
  /// meanwhile.
  std::uint32_t n_behind = 0;
};

/// A chunk and its uses in one iteration.
struct PlannedChunk {
  std::uint64_t n_bytes = 0;
  std::vector<ChunkUse> uses;  ///< by rising moment, at most one for each moment
  /// The tiers on which it may stay between its uses. On any other tier that a use needs it is resident only for the
  /// use and up to n_ahead moments before it. kNowhere for a chunk without uses and without contents, which takes no
  /// room.
  Places rest = kAnywhere;
};

/// An iteration that repeats: the uses of chunks, and the room for them.
struct MoveProblem {
  std::uint32_t n_moments = 0;
  IndexedVector<ChunkId, PlannedChunk> chunks;
  /// Bytes that chunks may take from each moment to the next, n_moments of them for device and host.
  std::array<std::vector<std::uint64_t>, 2> room_bytes;
  std::vector<bool> beside;  ///< by moment: Moment::beside; empty where none is beside
  std::vector<bool> joins;   ///< by moment: AccessTrace::joins; empty where none joins
  LinkCosts costs;
  bool nvme = false;  ///< there is a tier below the host; its room is not limited
  /// Between uses that are at most this many moments apart, a chunk may stay on any tier, not only on those of `rest`.
  std::uint32_t n_together = 0;
};

/// The places of a chunk around one of its uses.
struct Stay {
  /// In the moment of the use, and in the use's n_behind moments after it. Copies that the use makes stale are
  /// included.
  Places at_use = kNowhere;
  Places after = kNowhere;        ///< after that
  Places before_next = kNowhere;  ///< in the n_ahead moments before its next use; as `after` where no use has any
};

/// The price of a byte of room from each moment to the next, in seconds of the links, on device and host.
using RoomPrices = std::array<std::vector<double>, 2>;

/// The copies of every chunk through the iteration. The end leads to the beginning: each repetition moves the same
/// bytes.
struct MovePlan {
  IndexedVector<ChunkId, std::vector<Stay>> stays;  ///< by use; a chunk without uses has one, the whole iteration
  LinkBytes moved;                       ///< per iteration
  double link_seconds = 0;               ///< cost of `moved`, as if the links worked one after the other
  double bound_seconds = 0;              ///< no plan costs less; equal to link_seconds where the plan is proven best
  std::array<std::vector<std::uint64_t>, 2> used_bytes;  ///< of device and host, from each moment to the next
  RoomPrices prices;                                     ///< the prices that give the bound

  /// The most bytes that chunks take on `tier`, device or host.
  std::uint64_t peak_bytes(Tier tier) const;
};

/// Decides which tiers keep each chunk between any two of its uses, so that the links carry least and no tier holds
/// more than its room. Pure.
///
/// Method: every chunk takes its cheapest itinerary around the iteration under prices for room (a shortest path over
/// the sets of tiers that hold it), and prices rise where a tier is overfull: a Lagrangian relaxation, which also gives
/// the lower bound. Itineraries that fit together are found by inserting chunk after chunk; where a gap to the bound
/// remains, all itineraries that could close it are tried, up to a limit. See docs/planning.md.
///
/// The search begins with the prices `first`, best those of a plan for a problem that differs little; empty: with 0.
///
/// Cost: about linear in uses times rounds of prices; 0.1 to 0.3 s for 6000 chunks.
/// Errors: does_not_fit with the moment at which the needed chunks exceed the room, or where no placement was found
/// without a tier below the host.
Result<MovePlan> plan_moves(const MoveProblem& problem, const RoomPrices& first = {});

/// Sets problem.beside: the moments of `moments` that use no chunk on the device and have no arriving bytes. The others
/// have work of the training thread as well, so they count as that thread's.
void set_beside(MoveProblem& problem, std::vector<bool> moments);

/// The problem of a recorded iteration, whose chunks have `n_bytes` each. The caller fills in room, costs and
/// nvme.
MoveProblem problem_of(const AccessTrace& trace, const IndexedVector<ChunkId, std::uint64_t>& n_bytes);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <castor/chunk/chunk_manager.h>
#include <castor/memory/budget.h>
#include <castor/mover/planned_moves.h>

#include "eviction_policy.h"
#include "waits.h"

namespace castor {

/// Makes room in a full tier: frees the copies that have finished leaving, then releases those that the plan wants
/// elsewhere, then waits for copies that are leaving, and last evicts a chunk by policy.
///
/// Threads: those of the mover.
class RoomMaker {
 public:
  /// StatefulTensorMgr::push_down.
  using PushDown = std::function<Result<void>(ChunkId, Tier)>;

  /// Borrowed. The budgets serve error messages; the resources behind `chunks` enforce them.
  struct Parts {
    ChunkManager& chunks;
    PlannedMoves& planned;
    Waits& waits;
    const Budget& device;
    const Budget& host;
    PushDown push_down;
  };

  explicit RoomMaker(Parts parts) : parts_(std::move(parts)) {}

  /// Frees memory in `tier` after an allocation for `wanted` was `refused`. Errors: does_not_fit, where every copy
  /// there is pinned or cannot be evicted; the message names the budget that would suffice, or is `refused` where the
  /// machine has less memory than the budget allows. io.
  [[nodiscard]] Result<void> make_room(ChunkId wanted, Tier tier, const Error& refused);

  /// Records that a moment needs `id` in `tier`.
  void note_use(ChunkId id, Tier tier);
  /// Counts a moment that begins.
  void begin_moment() { ++clock_; }

 private:
  Result<void> evict(ChunkId wanted, Tier tier, const Error& refused);
  Result<void> wait_for_room(ChunkId wanted, Tier tier, const Error& refused);
  std::vector<EvictionCandidate> candidates(Tier tier, ChunkId wanted) const;
  Error full(ChunkId wanted, Tier tier, const Error& refused) const;

  const Parts parts_;
  const std::unique_ptr<EvictionPolicy> farthest_ = make_farthest_next_use();
  const std::unique_ptr<EvictionPolicy> by_recency_ = make_by_recency();
  std::uint64_t clock_ = 0;                             ///< moments since the start
  std::array<IndexedVector<ChunkId, std::uint64_t>, 2> last_use_;  ///< per tier, by clock_
};

}  // namespace castor

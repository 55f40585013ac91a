// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>

#include <castor/chunk/chunk_manager.h>
#include <castor/memory/budget.h>
#include <castor/mover/planned_moves.h>

#include "eviction_policy.h"
#include "waits.h"

namespace castor {

/// Makes room in a full tier: frees the copies that have finished leaving, then releases those that the plan wants
/// elsewhere, then waits for copies that are leaving, and last evicts the chunk that the policy chooses.
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
    const EvictionPolicy& policy;
    const Budget& device;
    const Budget& host;
    PushDown push_down;
  };

  explicit RoomMaker(Parts parts) : parts_(std::move(parts)) {}

  /// Frees memory in `tier` after an allocation for `wanted` was `refused`. Errors: does_not_fit, where every copy
  /// there is pinned or cannot be evicted; the message names the budget that would suffice, or is `refused` where the
  /// machine has less memory than the budget allows. io.
  [[nodiscard]] Result<void> make_room(ChunkId wanted, Tier tier, const Error& refused);

 private:
  Result<void> evict(ChunkId wanted, Tier tier, const Error& refused);
  Result<bool> wait_for_leaving(Tier tier);
  Result<void> wait_for_room(ChunkId wanted, Tier tier, const Error& refused);
  Error full(ChunkId wanted, Tier tier, const Error& refused) const;

  const Parts parts_;
  bool makes_room_on_device_ = false;  ///< chunks come down, and none goes up
};

}  // namespace castor

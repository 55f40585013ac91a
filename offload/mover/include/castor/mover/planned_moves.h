// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include <castor/chunk/chunk_manager.h>
#include <castor/plan/plan_replay.h>

namespace castor {

/// The moves of a plan that have begun and are not finished: chunks that are not yet where the plan wants them, and
/// fetches that are waiting for room. Starts copies where that takes no waiting; never evicts.
///
/// Threads: those of the mover.
class PlannedMoves {
 public:
  /// Borrowed.
  explicit PlannedMoves(ChunkManager& chunks) : chunks_(chunks) {}

  /// Puts a plan in force; `places` are those of each chunk between two iterations. A copy elsewhere stays until it is
  /// needed or its room is.
  void follow(IndexedVector<ChunkId, Places> places);
  /// No plan is in force.
  void drop();
  bool in_force() const { return in_force_; }

  /// Adds the orders of a moment that begins.
  void add(const MoveOrders& orders);
  /// Gives up the moves of chunks: the iteration has left the trace.
  void forget_moves() { going_.clear(); }
  /// Gives up the fetches that are waiting.
  void forget_fetches() { fetches_.clear(); }

  /// Starts or finishes, as far as that takes no waiting, the moves of chunks to where the plan wants them. Starts no
  /// copy to `full`, the tier in which the thread waits for room.
  void advance(std::optional<Tier> full = {});
  /// Starts the waiting fetches, in their order, as far as there is room. One that finds no room in a tier holds up
  /// those behind it that need room there. Errors: io.
  [[nodiscard]] Result<void> start_fetches();

  /// Sets where `id` may be between its uses: plans are made for it, and while no plan is followed a copy elsewhere is
  /// evicted first.
  void set_rest(ChunkId id, Places rest);
  /// Chunks behind its end may be anywhere.
  const IndexedVector<ChunkId, Places>& rest() const { return rest_; }

  /// A chunk, other than `wanted`, whose copy in `tier` can be dropped at no cost and that the plan wants elsewhere.
  std::optional<ChunkId> unwanted_copy(Tier tier, ChunkId wanted) const;
  /// Where `id` should be now: by the plan in force if the iteration is `on_trace`, else by its rest.
  Places wanted(ChunkId id, bool on_trace) const;

 private:
  using FullTiers = std::array<bool, 2>;  ///< device, host: a fetch has found no room there

  void send(ChunkId id, Places places);
  void advance(ChunkId id, Places wanted, std::optional<Tier> full);
  bool can_go(ChunkId id) const;
  bool arrived(ChunkId id) const;
  void copy_up(ChunkId id, Places wanted);
  void copy_down(ChunkId id, Places wanted);
  void leave_device(ChunkId id, Places wanted);
  void leave_host(ChunkId id, Places wanted);
  Result<void> start_fetch(ChunkId id, Tier tier, FullTiers& full);
  Result<void> keep(ChunkId id, Tier tier);

  ChunkManager& chunks_;
  bool in_force_ = false;
  IndexedVector<ChunkId, Places> wanted_;  ///< under the plan in force
  IndexedVector<ChunkId, Places> rest_;
  std::vector<ChunkId> going_;             ///< not yet at their wanted places
  std::deque<PlannedMove> fetches_;        ///< started or waiting for room, not there yet
};

}  // namespace castor

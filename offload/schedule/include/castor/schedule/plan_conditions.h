// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include <castor/plan/move_planner.h>

namespace castor {

/// Identifies the traces and budgets that a plan was begun for: a plan whose token is not the scheduler's any more is
/// out of date.
struct PlanToken {
  std::uint64_t n_forgotten = 0;                 ///< how often the traces were forgotten
  std::array<std::uint64_t, 2> room_bytes = {};  ///< the limits of device and host
  bool operator==(const PlanToken&) const = default;
};

/// Everything that a plan depends on but for the iteration and its times: values, so that a plan can be made beside the
/// iterations.
struct PlanConditions {
  PlanToken token;
  IndexedVector<ChunkId, std::uint64_t> n_bytes;
  IndexedVector<ChunkId, bool> has_contents;
  IndexedVector<ChunkId, Places> rest;  ///< PlannedMoves::rest, of all chunks
  LinkCosts costs;
  bool nvme = false;
};

/// The input of plans: the uses of `trace`, room as the budgets say, costs, and whether there is a tier below the host.
/// Pure.
MoveProblem problem_of(const AccessTrace& trace, const PlanConditions& conditions);

}  // namespace castor

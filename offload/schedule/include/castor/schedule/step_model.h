// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <castor/memory/timeline.h>
#include <castor/plan/access_trace.h>
#include <castor/plan/move_planner.h>

namespace castor {

/// One change of a chunk's places in an iteration.
struct PlannedMove {
  ChunkId chunk = 0;
  Places from = kNowhere, to = kNowhere;
  std::uint32_t start = 0;    ///< from the beginning of this moment on
  std::uint32_t n_ahead = 0;  ///< moments from there to the one that waits for it; 0 where nobody does
  std::uint32_t n_early = 0;  ///< of n_ahead, the first that the plan sets no room aside for: there happens to be some
  bool awaited = false;       ///< a use waits for it: at start + n_ahead
};

/// The moves of `plan`, by rising start. What a use needs starts up to `n_ahead` moments before it, as far as there is
/// room; what leaves starts right after its use. Pure.
std::vector<PlannedMove> schedule_of(const MoveProblem& problem, const MovePlan& plan, std::uint32_t n_ahead);

/// How long a step takes, and what binds it.
struct StepEstimate {
  double step_s = 0;
  double compute_s = 0;  ///< without waits
  double beside_s = 0;   ///< of the team that updates, beside compute_s
  double wait_s = 0;     ///< the compute lane stands still for data, or for an update
  LinkBytes moved;       ///< what the plan moves, and what arrives whatever the plan
  LinkSeconds link_s{};  ///< busy
  /// `compute`, `host_update` (beside it), the link that is busiest, or `nvme`: the drive, reading and writing.
  std::string bound_by;
  double bound_s = 0;  ///< how long that lane is busy: no order of moves makes the step shorter

  /// Names the busiest lane, of the links that carry `moved`, those that compute for `busy_s`, and updates for beside_s.
  void find_bound(const LinkCosts& costs, double busy_s);
};

/// Moments that a fetch may start early where room is left over.
inline constexpr std::uint32_t kFetchAhead = 16;

/// A plan, when its moves start, and what it comes to by dry_run.
struct StepPlan {
  MovePlan plan;  ///< its used_bytes count what is fetched early from the start of the fetch
  std::vector<PlannedMove> moves;
  StepEstimate estimate;
  double times = 0;  ///< of what its moves take, for which the plan sets room aside
};

/// The plan with the shortest step by dry_run, of those with more or less room for chunks to arrive and to leave in: more
/// room hides more moves behind computing, less leaves more chunks where they are. Uses at most kFetchAhead moments apart
/// are together; n_ahead and n_behind of the uses, and `n_together` of the problem, are not looked at. Requires: seconds
/// of all moments (ContractViolation). Pure. Errors: as plan_moves and dry_run.
Result<StepPlan> plan_step(MoveProblem problem, const MomentSeconds& seconds);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <castor/plan/access_trace.h>
#include <castor/plan/move_planner.h>
#include <castor/plan/step_estimate.h>

namespace castor {

/// One change of a chunk's places in an iteration.
struct PlannedMove {
  ChunkId chunk{};
  Places from = kNowhere, to = kNowhere;
  std::uint32_t start = 0;    ///< the moment at whose begin the move may start
  std::uint32_t n_ahead = 0;  ///< moments from there to the one that waits for the move; 0 where none waits
  std::uint32_t n_early = 0;  ///< of n_ahead, the first moments, for which the plan sets no room aside
  bool awaited = false;       ///< a use waits for the move: at start + n_ahead
};

/// The moves of `plan`, by rising start. A move that a use needs starts up to `n_ahead` moments before the use, as far
/// as there is room; a move that only frees room starts right after the chunk's use. Pure.
std::vector<PlannedMove> schedule_of(const MoveProblem& problem, const MovePlan& plan, std::uint32_t n_ahead);

/// Moments that a fetch may start early where room is left over.
inline constexpr std::uint32_t kFetchAhead = 16;

/// A plan of moves, the start of each, and the step that a dry run of it takes.
struct StepPlan {
  MovePlan plan;  ///< its used_bytes count early fetches from their start
  std::vector<PlannedMove> moves;
  StepEstimate estimate;
  double times = 0;  ///< the room that the plan sets aside lasts this share of the time that its moves take
};

}  // namespace castor

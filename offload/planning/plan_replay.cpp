// SPDX-License-Identifier: Apache-2.0
#include "plan_replay.h"

#include <utility>

namespace castor {

PlanReplay::PlanReplay(MoveProblem problem, StepPlan plan)
    : problem_(std::move(problem)),
      plan_(std::move(plan)),
      leaving_(problem_.n_moments),
      used_(problem_.n_moments),
      coming_(problem_.n_moments) {
  for (ChunkId id = 0; id < problem_.chunks.size(); ++id)
    for (std::size_t i = 0; i < problem_.chunks[id].uses.size(); ++i) {
      const Stay& stay = plan_.plan.stays[id][i];
      const std::uint32_t moment = problem_.chunks[id].uses[i].moment;
      used_[moment].push_back({id, stay.at_use});
      leaving_[(moment + 1) % problem_.n_moments].push_back({id, stay.after});
    }
  for (const PlannedMove& move : plan_.moves)
    if (move.awaited) coming_[move.start].push_back(move);
}

void PlanReplay::estimate_again(std::span<const double> compute_s) {
  plan_.estimate = estimate_step(problem_, plan_.moves, compute_s);
}

}  // namespace castor

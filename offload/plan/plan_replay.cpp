// SPDX-License-Identifier: Apache-2.0
#include <castor/plan/plan_replay.h>

#include <utility>

namespace castor {

PlanReplay::PlanReplay(const MoveProblem& problem, StepPlan plan)
    : plan_(std::move(plan)), leaving_(problem.n_moments), used_(problem.n_moments), fetches_(problem.n_moments) {
  for (const ChunkId id : problem.chunks.ids())
    for (std::size_t i = 0; i < problem.chunks[id].uses.size(); ++i) {
      const Stay& stay = plan_.plan.stays[id][i];
      const std::uint32_t moment = problem.chunks[id].uses[i].moment;
      used_[moment].push_back({id, stay.at_use});
      leaving_[(moment + 1) % problem.n_moments].push_back({id, stay.after});
    }
  for (const PlannedMove& move : plan_.moves)
    if (move.awaited) fetches_[move.start].push_back(move);
}

MoveOrders PlanReplay::orders(std::uint64_t position) const {
  return {leaving_.at(position), used_.at(position), fetches_.at(position)};
}

IndexedVector<ChunkId, Places> PlanReplay::between_iterations() const {
  IndexedVector<ChunkId, Places> places;
  for (const auto& stays : plan_.plan.stays) places.push_back(stays.empty() ? kAnywhere : stays.back().after);
  return places;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/schedule/plan_conditions.h>

namespace castor {

MoveProblem problem_of(const AccessTrace& trace, const PlanConditions& conditions) {
  MoveProblem problem = problem_of(trace, conditions.n_bytes);
  for (const Tier tier : {Tier::device, Tier::host})
    problem.room_bytes[index(tier)].assign(problem.n_moments, conditions.token.room_bytes[index(tier)]);
  for (const ChunkId id : conditions.rest.ids()) problem.chunks[id].rest = conditions.rest[id];
  for (const ChunkId id : conditions.has_contents.ids())
    if (problem.chunks[id].uses.empty() && !conditions.has_contents[id]) problem.chunks[id].rest = kNowhere;
  problem.costs = conditions.costs;
  problem.nvme = conditions.nvme;
  return problem;
}

}  // namespace castor

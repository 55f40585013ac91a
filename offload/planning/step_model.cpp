// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/step_model.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "room.h"

namespace castor {
namespace {

constexpr double kTimesTried[] = {0, 0.25, 1};  // of what a move takes, for which plans set room aside
constexpr double kPauses = 0.001;               // of the busiest lane, that no other plan is tried for

/// Fetches that start before the plan sets room aside for them take it from then on.
void count_early(const MoveProblem& problem, std::span<const PlannedMove> moves, MovePlan& plan) {
  for (const PlannedMove& move : moves)
    for (const Tier tier : kLimitedTiers)
      for (std::uint32_t k = 0; k < move.n_early && holds(move.to, tier) && !holds(move.from, tier); ++k)
        plan.used_bytes[index(tier)][(move.start + k) % problem.n_moments] += problem.chunks[move.chunk].n_bytes;
}

/// The moments from `moment` on, it left out, that take `seconds` together: forward in steps of 1, back in steps of -1. At
/// least one where that is more than nothing.
std::uint32_t moments_within(std::span<const double> compute_s, std::uint32_t moment, int step, double seconds) {
  const auto n = static_cast<std::int64_t>(compute_s.size());
  std::uint32_t count = 0;
  for (std::int64_t m = moment; seconds > 0 && count < kFetchAhead; ++count) {
    m = (m + step + n) % n;
    seconds -= compute_s[static_cast<std::size_t>(m)];
  }
  return count;
}

/// Sets room aside for what comes to its uses, and on the host above NVMe for what they have changed and may go below:
/// `times` as long as it takes alone.
void set_room_aside(MoveProblem& problem, std::span<const double> compute_s, double times) {
  const LinkCosts& costs = problem.costs;
  for (PlannedChunk& chunk : problem.chunks)
    for (ChunkUse& use : chunk.uses) {
      const bool below = problem.nvme && use.tier == Tier::host;
      const double come_s = use.tier == Tier::device ? costs.h2d : below ? costs.nvme_read : costs.d2h;
      const double go_s = below && use.access != Access::read ? costs.nvme_write : 0;
      const double scale = times * static_cast<double>(chunk.n_bytes);
      use.n_ahead = moments_within(compute_s, use.moment, -1, use.access == Access::overwrite ? 0 : scale * come_s);
      use.n_behind = moments_within(compute_s, use.moment, 1, scale * go_s);
    }
}

}  // namespace

Result<StepPlan> plan_step(MoveProblem problem, std::span<const double> compute_s) {
  problem.n_together = kFetchAhead;  // what leaves for less would be fetched again at once
  std::optional<StepPlan> best;
  RoomPrices prices;  // a little more or less room set aside changes them little
  for (const double times : kTimesTried) {
    set_room_aside(problem, compute_s, times);
    auto plan = plan_moves(problem, prices);
    if (!plan.ok() && !best) return plan.error();
    if (!plan.ok()) break;  // more room for what arrives fits even less
    prices = plan->prices;
    StepPlan step{std::move(*plan), {}, {}, times};
    step.moves = schedule_of(problem, step.plan, kFetchAhead);
    count_early(problem, step.moves, step.plan);
    step.estimate = estimate_step(problem, step.moves, compute_s);
    if (!best || step.estimate.step_s < best->estimate.step_s) best = std::move(step);
    const bool busy = best->estimate.step_s <= best->estimate.bound_s * (1 + kPauses);
    if (busy) break;  // its busiest lane hardly pauses, and with more room for what arrives no less moves
  }
  return std::move(*best);
}

}  // namespace castor

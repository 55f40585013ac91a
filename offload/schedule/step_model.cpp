// SPDX-License-Identifier: Apache-2.0
#include <castor/schedule/step_model.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <castor/schedule/dry_run.h>


namespace castor {
namespace {

constexpr double kTimesTried[] = {0, 0.25, 1};  // room set aside, in multiples of a move's time
constexpr double kHardly = 0.01;                // excess time up to which no other plan is tried

/// Counts the room of fetches that start before the plan has set room aside for them, from their start on.
void count_early(const MoveProblem& problem, std::span<const PlannedMove> moves, MovePlan& plan) {
  for (const PlannedMove& move : moves)
    for (const Tier tier : {Tier::device, Tier::host})
      for (std::uint32_t k = 0; k < move.n_early && holds(move.to, tier) && !holds(move.from, tier); ++k)
        plan.used_bytes[index(tier)][(move.start + k) % problem.n_moments] += problem.chunks[move.chunk].n_bytes;
}

/// The number of moments after `moment` (step 1) or before it (step -1) that take `seconds` together; at least one
/// where `seconds` is above 0, at most kFetchAhead.
std::uint32_t moments_within(std::span<const double> compute_s, std::uint32_t moment, int step, double seconds) {
  const auto n = static_cast<std::int64_t>(compute_s.size());
  std::uint32_t count = 0;
  for (std::int64_t m = moment; seconds > 0 && count < kFetchAhead; ++count) {
    m = (m + step + n) % n;
    seconds -= compute_s[static_cast<std::size_t>(m)];
  }
  return count;
}

/// Sets room aside for `times` the duration of a move alone: before a use for the fetch, and on the host above NVMe
/// after a use that changes the chunk for the write back.
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

/// The plan with room set aside for `times` the duration of moves. `first`: as plan_moves.
Result<StepPlan> plan_with(MoveProblem& problem, const MomentSeconds& seconds, double times, const RoomPrices& first) {
  set_room_aside(problem, seconds.compute, times);
  CASTOR_ASSIGN(MovePlan plan, plan_moves(problem, first));
  StepPlan step{.plan = std::move(plan), .moves = {}, .estimate = {}, .times = times};
  step.moves = schedule_of(problem, step.plan, kFetchAhead);
  count_early(problem, step.moves, step.plan);
  CASTOR_ASSIGN(step.estimate, dry_run(problem, seconds, step));
  return step;
}

/// Seconds that the links are busy with the moves of `plan`, and with arrivals that no plan avoids.
double link_seconds(const MoveProblem& problem, const MovePlan& plan) {
  LinkBytes moved = plan.moved;
  for (const PlannedChunk& chunk : problem.chunks)
    for (const ChunkUse& use : chunk.uses) moved.d2h += use.arriving_bytes;
  return sum(seconds_of(moved, problem.costs));
}

/// True where the mover makes the moves of the plan and no more, and the busiest lane hardly pauses: more room set
/// aside would not reduce the moves.
bool busy(const MoveProblem& problem, const StepPlan& step) {
  const auto hardly_more = [](double seconds, double than) { return seconds <= than * (1 + kHardly); };
  return hardly_more(step.estimate.step_s, step.estimate.bound_s) &&
         hardly_more(sum(step.estimate.link_s), link_seconds(problem, step.plan));
}

}  // namespace

Result<StepPlan> plan_step(MoveProblem problem, const MomentSeconds& seconds) {
  for (const std::vector<double>* given : {&seconds.compute, &seconds.thread})
    if (given->size() != problem.n_moments)
      throw ContractViolation("plan_step: seconds of " + std::to_string(given->size()) + " moments");
  problem.n_together = kFetchAhead;  // a chunk evicted for less would be fetched again at once
  std::optional<StepPlan> best;
  RoomPrices prices;  // a start for the next plan: more room set aside changes them little
  for (const double times : kTimesTried) {
    auto step = plan_with(problem, seconds, times, prices);
    if (!step.ok() && !best) return step.error();
    if (!step.ok()) break;  // more room set aside fits even less
    prices = step->plan.prices;
    if (!best || step->estimate.step_s < best->estimate.step_s) best = std::move(*step);
    if (busy(problem, *best)) break;
  }
  return std::move(*best);
}

}  // namespace castor

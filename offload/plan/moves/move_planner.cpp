// SPDX-License-Identifier: Apache-2.0
#include <castor/plan/move_planner.h>

#include <algorithm>
#include <string>
#include <utility>

#include <castor/memory/bytes.h>
#include <castor/memory/shortage.h>

#include "exact_search.h"
#include "itinerary_search.h"
#include "packing.h"
#include "relaxation.h"

namespace castor {
namespace {

/// Rounds of prices: more uses need more rounds, up to about a quarter of a second, and fewer rounds where the prices
/// begin near. After every kRoundsBetweenBuilds rounds Packing builds itineraries that fit together.
constexpr std::uint64_t kUsesLookedAt = 600'000;
constexpr std::uint64_t kLeastRounds = 50, kLeastRoundsNear = 20, kRoundsPerUse = 2;
constexpr std::uint32_t kRoundsBetweenBuilds = 40;
constexpr std::uint64_t kShakesPerChunk = 3, kMostShakes = 1000;

/// The search stops where the cost is above the bound by this share of itself at most.
constexpr double kNearEnough = 0.002;

/// Requires: as MoveProblem's comments say (ContractViolation).
void check(const MoveProblem& problem, const RoomPrices& first) {
  const auto broken = [](const std::string& what) { throw ContractViolation("plan_moves: " + what); };
  for (const auto& room : problem.room_bytes)
    if (room.size() != problem.n_moments) broken("room for " + std::to_string(room.size()) + " moments");
  for (const std::vector<bool>* given : {&problem.beside, &problem.joins})
    if (!given->empty() && given->size() != problem.n_moments)
      broken("kinds of " + std::to_string(given->size()) + " moments");
  for (const auto& prices : first)
    if (prices.size() != first[0].size() || (!prices.empty() && prices.size() != problem.n_moments))
      broken("prices for " + std::to_string(prices.size()) + " moments");
  for (const PlannedChunk& chunk : problem.chunks) {
    if (chunk.n_bytes == 0) broken("a chunk of 0 bytes");
    if (chunk.rest == kNowhere && !chunk.uses.empty()) broken("uses of a chunk that may be nowhere");
    std::uint64_t earliest = 0;
    for (std::size_t i = 0; i < chunk.uses.size(); ++i) {
      const ChunkUse &use = chunk.uses[i], &next = chunk.uses[(i + 1) % chunk.uses.size()];
      if (use.dropped && next.access != Access::overwrite) broken("a use of what was dropped");
      if (use.moment < earliest || use.moment >= problem.n_moments) broken("uses that do not rise");
      if (use.tier == Tier::nvme) broken("a use on nvme");
      earliest = std::uint64_t{use.moment} + 1;
    }
  }
}

/// The chunks that the uses of each moment need must have room.
Result<void> check_needs(const MoveModel& model) {
  for (const Tier tier : kLimitedTiers)
    for (std::uint32_t m = 0; m < model.n_moments; ++m) {
      if (model.free[index(tier)][m] >= 0) continue;
      const auto room_bytes = static_cast<std::uint64_t>(model.room[index(tier)][m]);
      const auto lacking_bytes = static_cast<std::uint64_t>(-model.free[index(tier)][m]);
      return does_not_fit({tier, room_bytes + lacking_bytes, room_bytes},
                          std::string(name(tier)) + " tier: moment " + std::to_string(m) + " needs " +
                              format_bytes(room_bytes + lacking_bytes) + " of chunks at once, there is room for " +
                              format_bytes(room_bytes) + "; raise `" + budget_option(tier) + "` by " +
                              format_bytes_up(lacking_bytes));
    }
  return {};
}

/// The leanest plan: no tier holds a copy longer than it saves a move.
MovePlan plan_of(const MoveModel& model, const Itineraries& itineraries) {
  MovePlan plan;
  BytesAdded taken(model.n_moments);
  for (const ChunkId chunk : model.graphs.ids()) {
    const ItineraryGraph& graph = model.graphs[chunk];
    const Itinerary itinerary = ItinerarySearch(graph).leanest(itineraries.of[chunk]);
    plan.stays.push_back(graph.stays(itinerary));
    plan.moved += graph.moved(itinerary);
    graph.add(itinerary, -static_cast<std::int64_t>(graph.n_bytes()), taken);
  }
  const BytesByPeriod left = taken.onto(model.free);
  plan.link_seconds = itineraries.link_seconds;
  for (const Tier tier : kLimitedTiers)
    for (std::uint32_t m = 0; m < model.n_moments; ++m)
      plan.used_bytes[index(tier)].push_back(
          static_cast<std::uint64_t>(model.room[index(tier)][m] - left[index(tier)][m]));
  return plan;
}

bool within(double share, const Packing& packing, const Relaxation& relaxation) {
  const double seconds = packing.best().link_seconds;
  return packing.best().found() && seconds - relaxation.bound_seconds() <= share * seconds;
}

std::uint64_t n_rounds(const MoveProblem& problem, bool near) {
  std::uint64_t n_uses = 1;
  for (const PlannedChunk& chunk : problem.chunks) n_uses += chunk.uses.size();
  const std::uint64_t n_least = near ? kLeastRoundsNear : kLeastRounds;
  return std::max(n_least, std::min(kLeastRounds + kRoundsPerUse * n_uses, kUsesLookedAt / n_uses));
}

/// Raises the bound and lowers the cost in turns, until they are near or the rounds are used up.
void close_in(Relaxation& relaxation, Packing& packing, double most_seconds, std::uint64_t n_rounds,
              std::uint64_t n_chunks) {
  bool settled = false;
  packing.build(relaxation.prices());
  for (std::uint64_t round = 0; round < n_rounds && !settled && !within(kNearEnough, packing, relaxation); ++round) {
    settled = !relaxation.step(std::min(packing.best().link_seconds, most_seconds));
    if (settled || (round + 1) % kRoundsBetweenBuilds == 0) packing.build(relaxation.prices());
  }
  if (within(kNearEnough, packing, relaxation)) return;
  packing.build(relaxation.prices());
  const std::uint64_t n_shakes = std::min(kShakesPerChunk * n_chunks, kMostShakes);
  if (!within(kNearEnough, packing, relaxation))
    packing.shake(relaxation.prices(), static_cast<std::uint32_t>(n_shakes));
}

/// The cost of fetching every chunk from the lowest tier for each use and writing it back: more than any plan should
/// cost.
double most_seconds(const MoveProblem& problem) {
  const LinkCosts& costs = problem.costs;
  double seconds = 0;
  for (const PlannedChunk& chunk : problem.chunks)
    seconds += static_cast<double>(chunk.n_bytes * chunk.uses.size()) *
               (costs.h2d + costs.d2h + (problem.nvme ? costs.nvme_read + costs.nvme_write : 0));
  return seconds;
}

}  // namespace

std::uint64_t MovePlan::peak_bytes(Tier tier) const {
  std::uint64_t most = 0;
  for (const std::uint64_t used : used_bytes.at(index(tier))) most = std::max(most, used);
  return most;
}

Result<MovePlan> plan_moves(const MoveProblem& problem, const RoomPrices& first) {
  check(problem, first);
  const MoveModel model(problem);
  CASTOR_TRY(check_needs(model));
  const bool near = !first[0].empty();
  const std::uint64_t n_most = n_rounds(problem, near);
  Relaxation relaxation(model, near ? Prices(first) : Prices(model.n_moments), n_most);
  Packing packing(model);
  close_in(relaxation, packing, most_seconds(problem), n_most, problem.chunks.size());
  const bool best = within(kCostRounding, packing, relaxation) ||
                    (!within(kNearEnough, packing, relaxation) && ExactSearch(model, relaxation, packing).run());
  if (!packing.best().found())
    return Error{ErrorKind::does_not_fit,
                 "no placement was found in which every chunk has room somewhere; raise `host_budget` or name a folder "
                 "with `nvme`",
                 "host_budget"};
  MovePlan plan = plan_of(model, packing.best());
  plan.prices = relaxation.prices().at();
  plan.bound_seconds = best ? plan.link_seconds : relaxation.bound_seconds();
  return plan;
}

void set_beside(MoveProblem& problem, std::vector<bool> moments) {
  problem.beside = std::move(moments);
  for (const PlannedChunk& chunk : problem.chunks)
    for (const ChunkUse& use : chunk.uses)
      if (use.tier == Tier::device || use.arriving_bytes > 0) problem.beside.at(use.moment) = false;
}

MoveProblem problem_of(const AccessTrace& trace, const IndexedVector<ChunkId, std::uint64_t>& n_bytes) {
  MoveProblem problem;
  problem.n_moments = static_cast<std::uint32_t>(trace.n_moments());
  for (const std::uint64_t size : n_bytes) problem.chunks.push_back({size, {}});
  std::vector<bool> beside;
  for (std::uint32_t m = 0; m < problem.n_moments; ++m) {
    beside.push_back(trace.moment(m).beside);
    problem.joins.push_back(trace.joins(m));
    for (const Need& need : trace.needs(m)) {
      auto& uses = problem.chunks.at(need.chunk).uses;
      const bool again = !uses.empty() && uses.back().moment == m;
      if (!again)
        uses.push_back({m, need.tier, need.access, trace.dropped(m, need.chunk), trace.arriving_bytes(m, need.chunk)});
    }
  }
  set_beside(problem, std::move(beside));
  for (PlannedChunk& chunk : problem.chunks)
    for (std::size_t i = 0; i < chunk.uses.size(); ++i)
      chunk.uses[i].dropped =
          chunk.uses[i].dropped && chunk.uses[(i + 1) % chunk.uses.size()].access == Access::overwrite;
  return problem;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/schedule/step_model.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <castor/memory/budget.h>

#include "../plan/naive_moves.h"
#include "../plan/round_robin.h"

namespace castor {
namespace {

using test::all_go;
using test::round_robin;

TEST(ScheduleOf, FetchesAsEarlyAsThereIsRoom) {
  const auto problem = round_robin(6, 30);  // two more than the one in use
  const auto moves = schedule_of(problem, all_go(problem), 4);
  ASSERT_EQ(moves.size(), 6u) << "a clean copy leaves without a move";
  for (const PlannedMove& move : moves) {
    EXPECT_TRUE(move.awaited);
    EXPECT_EQ((move.start + move.n_ahead) % 6, problem.chunks[move.chunk].uses[0].moment);
    EXPECT_LE(move.n_ahead, 4u);
  }
  std::vector<int> taken(6, 0);  // device slots by moment
  for (const PlannedMove& move : moves)
    for (std::uint32_t k = 0; k <= move.n_ahead; ++k) ++taken[(move.start + k) % 6];
  EXPECT_LE(*std::max_element(taken.begin(), taken.end()), 3);
  EXPECT_TRUE(std::is_sorted(moves.begin(), moves.end(), [](auto& a, auto& b) { return a.start < b.start; }));
}

TEST(ScheduleOf, AFetchNeverStartsBeforeItsChunkWasUsedLast) {
  MoveProblem problem = round_robin(6, Budget::kUnlimited);
  problem.chunks = {{10, {{1, Tier::device, Access::update}, {3, Tier::device, Access::read}}}};
  MovePlan plan;
  plan.stays = {{{test::kOnDevice, test::kOnHost, test::kOnHost}, {test::kOnDevice, test::kOnHost, test::kOnHost}}};
  const auto moves = schedule_of(problem, plan, 9);
  ASSERT_EQ(moves.size(), 4u);
  for (const PlannedMove& move : moves) {
    if (!move.awaited) continue;
    const std::uint32_t last_use = move.start + move.n_ahead == 3 ? 1 : 3;
    EXPECT_EQ(move.start, last_use + 1);
  }
}

/// Moments before the use for which `move` fetches, at which the plan has room for it: no more than lie between two
/// uses.
std::uint32_t set_aside(const MoveProblem& problem, const PlannedMove& move) {
  const auto& uses = problem.chunks[move.chunk].uses;
  std::uint32_t aside = 0, apart = problem.n_moments;
  for (const ChunkUse& use : uses) {
    const std::uint32_t before = (move.start + move.n_ahead + problem.n_moments - use.moment) % problem.n_moments;
    if (before == 0)
      aside = use.n_ahead;
    else
      apart = std::min(apart, before);
  }
  return move.awaited ? std::min(aside, apart - 1) : move.n_ahead;
}

/// Copies that begin before the plan has set their room aside must fit beside all chunks that the plan keeps.
TEST(ScheduleOf, WhatComesEarlyFitsBesideThePlan) {
  int n_early = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    MoveProblem problem = test::random_problem(random, {8, 12, 16});
    problem.room_bytes[0].assign(problem.n_moments, 8 + random() % 20);
    problem.room_bytes[1].assign(problem.n_moments, Budget::kUnlimited);
    problem.costs = {1, 1, 4, 6};
    for (auto& chunk : problem.chunks)
      for (ChunkUse& use : chunk.uses) use.n_ahead = random() % 3;
    const auto plan = plan_moves(problem);
    if (!plan.ok()) continue;
    auto left = problem;  // the room that early copies leave
    LinkBytes moved;
    for (const PlannedMove& move : schedule_of(problem, *plan, 16)) {
      const std::uint64_t n_bytes = problem.chunks[move.chunk].n_bytes;
      const Hops taken = hops(move.from, move.to);
      moved.h2d += taken.h2d ? n_bytes : 0;
      moved.d2h += taken.d2h ? n_bytes : 0;
      const bool to_device = holds(move.to, Tier::device) && !holds(move.from, Tier::device);
      for (std::uint32_t k = 0; to_device && k + set_aside(problem, move) < move.n_ahead; ++k, ++n_early)
        left.room_bytes[0][(move.start + k) % problem.n_moments] -= n_bytes;
    }
    EXPECT_LT(test::naive_plan_seconds(left, *plan), 1e9) << "overfull";
    EXPECT_EQ(moved.h2d, plan->moved.h2d);
    EXPECT_EQ(moved.d2h, plan->moved.d2h);
  }
  EXPECT_GT(n_early, 20);
}

/// `n` moments that compute for `compute_s` on the device, or keep the thread as long on the host.
MomentSeconds all(std::uint32_t n, double compute_s, Tier tier = Tier::device) {
  return {std::vector<double>(n, compute_s), std::vector<double>(n, tier == Tier::device ? 0 : compute_s)};
}

// Room for three of four chunks, 10 s up and 11 s of computing each. With two that stay, the others find room only when
// they are needed: 44 s of computing and 20 s of waiting. With one that stays, all others are fetched during computing.
TEST(PlanStep, SetsRoomAsideWhereThatHidesMoves) {
  const auto problem = round_robin(4, 30);
  const auto step = plan_step(problem, all(4, 11)).value();
  EXPECT_EQ(step.estimate.step_s, 44);
  EXPECT_EQ(step.times, 0.25);
}

TEST(PlanStep, SetsRoomAsideOnTheHostForWhatComesFromBelow) {
  auto problem = round_robin(4, 0);
  for (auto& chunk : problem.chunks) chunk.uses[0].tier = Tier::host;
  problem.room_bytes[1].assign(4, 30);
  problem.costs = {1, 1, 1, 1};
  problem.nvme = true;
  const auto step = plan_step(problem, all(4, 11, Tier::host)).value();
  EXPECT_EQ(step.estimate.step_s, 44);
  EXPECT_EQ(step.times, 0.25);
}

TEST(PlanStep, WhatIsFetchedEarlyTakesRoomFromItsStart) {
  MoveProblem problem;
  problem.n_moments = 40;
  problem.chunks = {{10, {{20, Tier::device, Access::read}}, 2}};  // rests on the host
  problem.room_bytes = {std::vector<std::uint64_t>(40, 10), std::vector<std::uint64_t>(40, 10)};
  problem.costs = {1, 1, 4, 6};
  const auto step = plan_step(problem, all(40, 1)).value();
  for (std::uint32_t m = 0; m < 40; ++m)
    EXPECT_EQ(step.plan.used_bytes[0][m], m >= 4 && m <= 20 ? 10u : 0u) << "moment " << m;
}

TEST(PlanStep, SecondsForOtherMomentsAreAContractViolation) {
  const auto problem = round_robin(4, 40);
  EXPECT_THROW((void)plan_step(problem, all(3, 1)), ContractViolation);
}

}  // namespace
}  // namespace castor

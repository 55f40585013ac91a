// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/step_model.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <castor/memory/budget.h>

#include "naive_moves.h"

namespace castor {
namespace {

constexpr Tier D = Tier::device;
constexpr Places on_device = 1, on_host = 2, on_nvme = 4;

/// Chunks of 10 bytes, one a moment, each read on the device once; links of 1 s a byte up.
MoveProblem round_robin(std::uint32_t n, std::uint64_t device_bytes) {
  MoveProblem problem;
  problem.n_moments = n;
  for (std::uint32_t i = 0; i < n; ++i) problem.chunks.push_back({10, {{i, D, Access::read}}});
  problem.room_bytes = {std::vector<std::uint64_t>(n, device_bytes), std::vector<std::uint64_t>(n, Budget::kUnlimited)};
  problem.costs = {1, 1, 2, 4};
  return problem;
}

/// Every chunk goes back to the host after its use.
MovePlan all_go(const MoveProblem& problem) {
  MovePlan plan;
  for (const auto& chunk : problem.chunks)
    plan.stays.push_back(std::vector<Stay>(chunk.uses.size(), Stay{on_device | on_host, on_host, on_host}));
  return plan;
}

StepEstimate estimate(const MoveProblem& problem, const MovePlan& plan, std::uint32_t n_ahead, double compute_s) {
  const std::vector<double> seconds(problem.n_moments, compute_s);
  return estimate_step(problem, schedule_of(problem, plan, n_ahead), seconds);
}

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
  problem.chunks = {{10, {{1, D, Access::update}, {3, D, Access::read}}}};
  MovePlan plan;
  plan.stays = {{{on_device, on_host, on_host}, {on_device, on_host, on_host}}};
  const auto moves = schedule_of(problem, plan, 9);
  ASSERT_EQ(moves.size(), 4u);
  for (const PlannedMove& move : moves) {
    if (!move.awaited) continue;
    const std::uint32_t last_use = move.start + move.n_ahead == 3 ? 1 : 3;
    EXPECT_EQ(move.start, last_use + 1);
  }
}

/// Moments before the use that `move` is for, for which the plan has room for it: no more than lie between two uses.
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

/// Copies that begin before the plan has their place must fit beside everything that the plan keeps.
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
    auto left = problem;  // the room that the early copies leave
    LinkBytes moved;
    for (const PlannedMove& move : schedule_of(problem, *plan, 16)) {
      const std::uint64_t n_bytes = problem.chunks[move.chunk].n_bytes;
      const Hops taken = hops(move.from, move.to);
      moved.h2d += taken.h2d ? n_bytes : 0;
      moved.d2h += taken.d2h ? n_bytes : 0;
      const bool to_device = holds(move.to, D) && !holds(move.from, D);
      for (std::uint32_t k = 0; to_device && k + set_aside(problem, move) < move.n_ahead; ++k, ++n_early)
        left.room_bytes[0][(move.start + k) % problem.n_moments] -= n_bytes;
    }
    EXPECT_LT(test::naive_plan_seconds(left, *plan), 1e9) << "overfull";
    EXPECT_EQ(moved.h2d, plan->moved.h2d);
    EXPECT_EQ(moved.d2h, plan->moved.d2h);
  }
  EXPECT_GT(n_early, 20);
}

TEST(EstimateStep, WithoutMovesIsTheComputing) {
  const auto problem = round_robin(4, 40);
  const auto plan = plan_moves(problem).value();
  const StepEstimate step = estimate(problem, plan, 4, 3);
  EXPECT_EQ(step.step_s, 12);
  EXPECT_EQ(step.wait_s, 0);
  EXPECT_EQ(step.bound_by, "compute");
}

TEST(EstimateStep, FetchesHideBehindComputingThatTakesLonger) {
  const auto problem = round_robin(4, 20);
  const StepEstimate step = estimate(problem, all_go(problem), 1, 11);
  EXPECT_EQ(step.step_s, 44);
  EXPECT_EQ(step.link_s[0], 40);
}

TEST(EstimateStep, TheLinkBindsWhereItTakesLonger) {
  const auto problem = round_robin(4, 20);
  const StepEstimate step = estimate(problem, all_go(problem), 1, 6);
  EXPECT_EQ(step.step_s, 40);
  EXPECT_EQ(step.wait_s, 16);
  EXPECT_EQ(step.bound_by, "h2d");
  EXPECT_EQ(step.bound_s, 40);
}

TEST(EstimateStep, WithoutRoomToFetchAheadTheTimesAddUp) {
  const auto problem = round_robin(4, 10);
  const StepEstimate step = estimate(problem, all_go(problem), 8, 6);
  EXPECT_EQ(step.step_s, 64);
}

// What leaves dirty must be down before the next can come: 10 s down, 10 s up, 6 s of computing, one after the other.
TEST(EstimateStep, RoomIsThereOnlyWhenWhatLeavesHasLeft) {
  auto problem = round_robin(4, 10);
  MovePlan plan;
  for (auto& chunk : problem.chunks) {
    chunk.uses[0].access = Access::update;
    plan.stays.push_back({{on_device, on_host, on_host}});
  }
  EXPECT_EQ(estimate(problem, plan, 8, 6).step_s, 4 * 26);
}

TEST(EstimateStep, BytesFromBelowTakeBothLinksInTurn) {
  auto problem = round_robin(2, 20);
  MovePlan plan;
  for (std::size_t i = 0; i < 2; ++i)
    plan.stays.push_back({{static_cast<Places>(on_device | on_nvme), on_nvme, on_nvme}});
  const StepEstimate step = estimate(problem, plan, 1, 1);
  EXPECT_EQ(step.bound_by, "nvme_read");
  EXPECT_EQ(step.link_s[2], 40);
  EXPECT_EQ(step.link_s[0], 20);
  EXPECT_GE(step.step_s, 40);
}

// Computing 1 s, then 5 bytes that come down for the chunk's next use, two moments later: 5 s, of which one is hidden.
TEST(EstimateStep, WhatArrivesFromTheDeviceTakesTheLinkDownAndIsAwaited) {
  MoveProblem problem = round_robin(3, Budget::kUnlimited);
  problem.chunks = {{10, {{0, Tier::host, Access::overwrite, false, 5}, {2, Tier::host, Access::read}}}};
  const StepEstimate step = estimate(problem, plan_moves(problem).value(), 1, 1);
  EXPECT_EQ(step.moved.d2h, 5u);
  EXPECT_EQ(step.link_s[kD2h], 5);
  EXPECT_EQ(step.wait_s, 4);
  EXPECT_EQ(step.step_s, 7);
  EXPECT_EQ(step.bound_by, "d2h");
}

// Nobody waits for a chunk that is written below; but each step writes it again.
TEST(EstimateStep, NoStepIsShorterThanItsBusiestLane) {
  MoveProblem problem = round_robin(4, Budget::kUnlimited);
  problem.nvme = true;
  problem.chunks = {{10, {{1, Tier::host, Access::update}}}};
  MovePlan plan;
  plan.stays = {{{on_host, on_host | on_nvme, on_host | on_nvme}}};
  const auto found = estimate(problem, plan, 4, 1);
  EXPECT_EQ(found.step_s, 40);
  EXPECT_EQ(found.wait_s, 36);
  EXPECT_EQ(found.bound_by, "nvme_write");
}

// Each step reads 10 bytes and writes 10, alone 10 s each way.
TEST(EstimateStep, ADriveThatReadsAndWritesInTurnsTakesTheSum) {
  MoveProblem problem = round_robin(4, Budget::kUnlimited);
  problem.nvme = true;
  problem.costs = {1, 1, 1, 1, 1};
  problem.chunks = {{10, {{1, Tier::host, Access::update}}}};
  MovePlan plan;
  plan.stays = {{{on_host, on_nvme, on_nvme}}};
  const auto in_turns = estimate(problem, plan, 1, 1);
  EXPECT_EQ(in_turns.bound_s, 20);
  EXPECT_EQ(in_turns.bound_by, "nvme");
  problem.costs.nvme_share = 0.75;
  EXPECT_EQ(estimate(problem, plan, 1, 1).bound_s, 15);
  problem.costs.nvme_share = 0;
  EXPECT_EQ(estimate(problem, plan, 1, 1).bound_s, 10);
}

// One chunk read and another written at once; whoever reads waits for its turn.
TEST(EstimateStep, AReadWaitsForWhatIsBeingWritten) {
  MoveProblem problem = round_robin(4, Budget::kUnlimited);
  problem.nvme = true;
  problem.costs = {1, 1, 1, 1, 1};
  problem.chunks = {{10, {{0, Tier::host, Access::update}}}, {10, {{2, Tier::host, Access::read}}}};
  MovePlan plan;
  plan.stays = {{{on_host, on_host | on_nvme, on_host | on_nvme}}, {{on_host | on_nvme, on_nvme, on_nvme}}};
  const auto step = estimate(problem, plan, 1, 1);
  EXPECT_EQ(step.step_s, 1 + 20 + 2) << "a moment, then 10 s down and 10 s up, then two moments";
  problem.costs.nvme_share = 0;
  EXPECT_EQ(estimate(problem, plan, 1, 1).step_s, 1 + 10 + 2);
}

TEST(EstimateStep, SecondsForOtherMomentsAreAContractViolation) {
  const auto problem = round_robin(4, 40);
  EXPECT_THROW((void)estimate_step(problem, {}, std::vector<double>(3, 1)), ContractViolation);
}

// Room for three of four chunks, 10 s up and 11 s of computing each. With two that stay the others find room only when their
// turn has come: 44 s of computing and 20 s of waiting. With one that stays all comes meanwhile.
TEST(PlanStep, SetsRoomAsideWhereThatHidesMoves) {
  const auto problem = round_robin(4, 30);
  const auto step = plan_step(problem, std::vector<double>(4, 11)).value();
  EXPECT_EQ(step.estimate.step_s, 44);
  EXPECT_EQ(step.times, 0.25);
}

TEST(PlanStep, SetsRoomAsideOnTheHostForWhatComesFromBelow) {
  auto problem = round_robin(4, 0);
  for (auto& chunk : problem.chunks) chunk.uses[0].tier = Tier::host;
  problem.room_bytes[1].assign(4, 30);
  problem.costs = {1, 1, 1, 1};
  problem.nvme = true;
  const auto step = plan_step(problem, std::vector<double>(4, 11)).value();
  EXPECT_EQ(step.estimate.step_s, 44);
  EXPECT_EQ(step.times, 0.25);
}

TEST(PlanStep, WhatIsFetchedEarlyTakesRoomFromItsStart) {
  MoveProblem problem;
  problem.n_moments = 40;
  problem.chunks = {{10, {{20, D, Access::read}}, 2}};  // rests on the host
  problem.room_bytes = {std::vector<std::uint64_t>(40, 10), std::vector<std::uint64_t>(40, 10)};
  problem.costs = {1, 1, 4, 6};
  const auto step = plan_step(problem, std::vector<double>(40, 1)).value();
  for (std::uint32_t m = 0; m < 40; ++m)
    EXPECT_EQ(step.plan.used_bytes[0][m], m >= 4 && m <= 20 ? 10u : 0u) << "moment " << m;
}

}  // namespace
}  // namespace castor

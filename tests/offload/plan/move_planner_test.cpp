// SPDX-License-Identifier: Apache-2.0
#include <castor/plan/move_planner.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>

#include <castor/memory/budget.h>

#include "../../support/seeds.h"
#include "naive_moves.h"

namespace castor {
namespace {

using test::least_seconds_of_three_tiers;
using test::least_seconds_of_two_tiers;
using test::naive_plan_seconds;
using test::random_problem;

constexpr std::uint64_t kNoLimit = Budget::kUnlimited;

/// `n` chunks of 10 bytes, each read in the forward pass and, in reverse order, in the backward pass, then updated.
MoveProblem training(std::uint32_t n, std::uint64_t device_bytes) {
  MoveProblem problem;
  problem.n_moments = 3 * n;
  for (std::uint32_t i = 0; i < n; ++i)
    problem.chunks.push_back({10,
                              {{i, Tier::device, Access::read},
                               {2 * n - 1 - i, Tier::device, Access::read},
                               {2 * n + i, Tier::device, Access::update}}});
  problem.room_bytes = {std::vector<std::uint64_t>(3 * n, device_bytes), std::vector<std::uint64_t>(3 * n, kNoLimit)};
  problem.costs = {1, 1, 4, 6};
  return problem;
}

/// Requires of every plan that it can be carried out within the room, at the cost that it states.
void expect_sound(const MoveProblem& problem, const MovePlan& plan) {
  EXPECT_NEAR(naive_plan_seconds(problem, plan), plan.link_seconds, 1e-6 * (1 + plan.link_seconds));
  EXPECT_LE(plan.bound_seconds, plan.link_seconds * (1 + 1e-9));
  const LinkCosts& costs = problem.costs;
  const auto& moved = plan.moved;
  EXPECT_NEAR(static_cast<double>(moved.h2d) * costs.h2d + static_cast<double>(moved.d2h) * costs.d2h +
                  static_cast<double>(moved.nvme_read) * costs.nvme_read +
                  static_cast<double>(moved.nvme_write) * costs.nvme_write,
              plan.link_seconds, 1e-6 * (1 + plan.link_seconds));
}

/// Some chunks may not stay on the device between uses.
void send_some_away(std::mt19937_64& random, MoveProblem& problem) {
  for (auto& chunk : problem.chunks)
    if (random() % 3 == 0) chunk.rest = test::kOnHost | test::kOnNvme;
  problem.n_together = random() % 5;
}

TEST(MovePlanner, WithRoomForEverythingNothingMoves) {
  const auto plan = plan_moves(training(5, 50)).value();
  EXPECT_EQ(plan.moved.h2d + plan.moved.d2h, 0u);
  EXPECT_EQ(plan.peak_bytes(Tier::device), 50u);
  for (const auto& stays : plan.stays)
    for (const Stay& stay : stays) EXPECT_TRUE(holds(stay.after, Tier::device));
}

// The device has room for one chunk beside the one in use. In the order 0 1 2 | 2 1 0 | 0 1 2 with updates at the end,
// the turns 2-2 and 0-0 are free. One more chunk can stay through the iteration: chunk 1 is still dirty on the device
// at its next use, or it moves.
TEST(MovePlanner, TurnsAreFreeAndTheRoomLeftSavesMost) {
  const auto problem = training(3, 20);
  const auto plan = plan_moves(problem).value();
  expect_sound(problem, plan);
  EXPECT_EQ(plan.link_seconds, least_seconds_of_two_tiers(problem).value());
  EXPECT_EQ(plan.bound_seconds, plan.link_seconds);
  EXPECT_LE(plan.peak_bytes(Tier::device), 20u);
}

TEST(MovePlanner, RoomToArriveAndToLeaveInCostsMovesButNeverBreaksTheRoom) {
  for (std::uint64_t seed = 1; seed <= test::n_seeds(100); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    MoveProblem problem = random_problem(random, {8, 12, 16});
    problem.room_bytes[0].assign(problem.n_moments, 8 + random() % 20);
    problem.room_bytes[1].assign(problem.n_moments, 8 + random() % 20);
    problem.costs = {1, 1, 4, 6};
    problem.nvme = true;
    const bool anywhere = seed % 2 == 0;  // chunks that may not stay on the device may arrive there ahead
    if (!anywhere) send_some_away(random, problem);
    for (auto& chunk : problem.chunks)
      for (ChunkUse& use : chunk.uses) use.tier = random() % 3 == 0 ? Tier::host : use.tier;
    const auto at_once = plan_moves(problem);
    for (auto& chunk : problem.chunks)
      for (ChunkUse& use : chunk.uses) {
        use.n_ahead = random() % 4;
        use.n_behind = use.access == Access::read ? 0 : random() % 3;
      }
    const auto ahead = plan_moves(problem);
    if (!ahead.ok()) continue;
    expect_sound(problem, *ahead);
    if (anywhere) {
      EXPECT_GE(ahead->link_seconds, at_once.value().bound_seconds - 1e-6);
    }
  }
}

// Three chunks of 10 bytes in turn on a host of 20, each read from NVMe and written back: while one is changed the
// chunk before it is still on its way down, so that none may stay.
TEST(MovePlanner, WhatIsBeingWrittenBelowKeepsItsPlaceOnTheHost) {
  MoveProblem problem;
  problem.n_moments = 3;
  for (const std::uint32_t moment : {0u, 1u, 2u})
    problem.chunks.push_back({10, {{moment, Tier::host, Access::update}}, test::kOnHost | test::kOnNvme});
  problem.room_bytes = {std::vector<std::uint64_t>(3, 0), std::vector<std::uint64_t>(3, 20)};
  problem.costs = {1, 1, 1, 1};
  problem.nvme = true;
  EXPECT_EQ(plan_moves(problem).value().moved.nvme_write, 20u) << "one of them stays";
  for (auto& chunk : problem.chunks) chunk.uses[0].n_behind = 1;
  const auto plan = plan_moves(problem).value();
  expect_sound(problem, plan);
  EXPECT_EQ(plan.moved.nvme_write, 30u);
  EXPECT_EQ(plan.used_bytes[1], (std::vector<std::uint64_t>{20, 20, 20}));
  problem.room_bytes[1].assign(3, 19);
  EXPECT_FALSE(plan_moves(problem).ok());
}

TEST(MovePlanner, OnlyWhatItsOwnerDropsIsNowhere) {
  MoveProblem problem = training(2, 10);
  for (auto& chunk : problem.chunks) chunk.uses = {{chunk.uses[0].moment, Tier::device, Access::overwrite}};
  const auto kept = plan_moves(problem).value();
  EXPECT_EQ(kept.moved.d2h, 20u) << "overwritten next, but whether that comes nobody knows";
  EXPECT_EQ(kept.moved.h2d, 0u);
  for (auto& chunk : problem.chunks) chunk.uses[0].dropped = true;
  const auto plan = plan_moves(problem).value();
  EXPECT_EQ(plan.link_seconds, 0);
  EXPECT_EQ(plan.stays[ChunkId{0}][0].after, kNowhere);
}

TEST(MovePlanner, AChunkThatNobodyUsesRestsWhereThereIsRoom) {
  MoveProblem problem = training(2, 20);
  problem.chunks.push_back({100, {}});
  problem.room_bytes[1].assign(problem.n_moments, 100);
  EXPECT_EQ(plan_moves(problem).value().stays[ChunkId{2}][0].after, test::kOnHost);
  problem.room_bytes[1].assign(problem.n_moments, 99);
  problem.nvme = true;
  EXPECT_EQ(plan_moves(problem).value().stays[ChunkId{2}][0].after, test::kOnNvme);
}

TEST(MovePlanner, AChunkWithoutUsesAndContentsTakesNoRoom) {
  MoveProblem problem = training(2, 20);
  problem.chunks.push_back({1000, {}, kNowhere});
  problem.room_bytes[1].assign(problem.n_moments, 0);
  const auto plan = plan_moves(problem).value();
  expect_sound(problem, plan);
  EXPECT_EQ(plan.peak_bytes(Tier::device), 20u);
  EXPECT_EQ(plan.stays[ChunkId{2}][0].after, kNowhere);
  problem.chunks[ChunkId{0}].rest = kNowhere;
  EXPECT_THROW((void)plan_moves(problem), ContractViolation);
}

TEST(MovePlanner, SaysWhatChunksTakeAtEachMoment) {
  MoveProblem problem = training(2, kNoLimit);
  problem.chunks.push_back({5, {{1, Tier::device, Access::overwrite}, {2, Tier::device, Access::read}}});
  problem.chunks.push_back({7, {{4, Tier::device, Access::overwrite, true}}});
  const auto plan = plan_moves(problem).value();
  const std::vector<std::uint64_t> device = {25, 25, 25, 25, 32, 25}, host(6, 0);
  EXPECT_EQ(plan.used_bytes[0], device);
  EXPECT_EQ(plan.used_bytes[1], host);
  EXPECT_EQ(plan.peak_bytes(Tier::device), 32u);
  EXPECT_EQ(plan.peak_bytes(Tier::host), 0u);
}

TEST(MovePlanner, KeepsNoCopyForNothing) {
  MoveProblem problem = training(4, kNoLimit);
  problem.chunks.push_back({10, {{5, Tier::host, Access::read}}});
  problem.chunks.push_back({10, {{6, Tier::host, Access::overwrite}}});
  const auto plan = plan_moves(problem).value();
  EXPECT_EQ(plan.link_seconds, 0);
  EXPECT_EQ(plan.peak_bytes(Tier::device), 40u) << "the four that are used there";
  EXPECT_EQ(plan.peak_bytes(Tier::host), 20u);
}

TEST(MovePlanner, WhatMayNotRestOnTheDeviceComesForEachUseAndLeaves) {
  MoveProblem problem = training(4, kNoLimit);
  problem.chunks[ChunkId{1}].rest = test::kOnHost;
  for (std::uint32_t n_ahead = 0; n_ahead < 3; ++n_ahead) {
    for (auto& chunk : problem.chunks)
      for (ChunkUse& use : chunk.uses) use.n_ahead = n_ahead;
    const auto plan = plan_moves(problem).value();
    expect_sound(problem, plan);
    EXPECT_EQ(plan.moved.h2d, 30u) << "for three uses";
    EXPECT_EQ(plan.moved.d2h, 10u) << "after its update";
    for (const Stay& stay : plan.stays[ChunkId{1}]) EXPECT_EQ(stay.after, test::kOnHost);
    for (const Stay& stay : plan.stays[ChunkId{0}]) EXPECT_TRUE(holds(stay.after, Tier::device));
  }
  problem.n_together = 3;  // the distance of its use in the backward pass to its update
  EXPECT_EQ(plan_moves(problem).value().moved.h2d, 20u);
}

TEST(MovePlanner, WhatTheHostCannotKeepGoesBelowIt) {
  MoveProblem problem = training(4, 10);
  problem.nvme = true;
  problem.room_bytes[1].assign(problem.n_moments, 20);
  const auto plan = plan_moves(problem).value();
  expect_sound(problem, plan);
  EXPECT_GT(plan.moved.nvme_read, 0u);
  EXPECT_LE(plan.peak_bytes(Tier::host), 20u);
}

TEST(MovePlanner, AMomentThatNeedsMoreThanTheRoomIsAnErrorWithTheFigures) {
  const auto refused = plan_moves(training(3, 9));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  EXPECT_EQ(refused.error().message,
            "device tier: moment 0 needs 10 B of chunks at once, there is room for 9 B; raise `device_budget` by 1 B");
}

TEST(MovePlanner, NowhereToGoIsAnErrorThatNamesTheWayOut) {
  MoveProblem problem = training(3, 20);
  problem.room_bytes[1].assign(problem.n_moments, 5);
  const auto refused = plan_moves(problem);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("`nvme`"), std::string::npos) << refused.error().message;
}

TEST(MovePlanner, NothingToPlanIsAPlan) {
  EXPECT_EQ(plan_moves({}).value().link_seconds, 0);
  MoveProblem problem;
  problem.chunks.push_back({10, {}});
  EXPECT_EQ(plan_moves(problem).value().stays[ChunkId{0}].size(), 1u);
}

TEST(MovePlanner, BrokenProblemsAreContractViolations) {
  MoveProblem problem = training(2, 20);
  problem.room_bytes[0].pop_back();
  EXPECT_THROW((void)plan_moves(problem), ContractViolation);
  problem = training(2, 20);
  problem.chunks[ChunkId{0}].uses[1].moment = 0;
  EXPECT_THROW((void)plan_moves(problem), ContractViolation);
  problem = training(2, 20);
  problem.chunks[ChunkId{0}].uses[1].dropped = true;
  EXPECT_THROW((void)plan_moves(problem), ContractViolation);
  problem = training(2, 20);
  problem.chunks[ChunkId{0}].n_bytes = 0;
  EXPECT_THROW((void)plan_moves(problem), ContractViolation);
  EXPECT_THROW((void)plan_moves(training(2, 20), {std::vector<double>(5), std::vector<double>(5)}), ContractViolation);
  EXPECT_THROW((void)plan_moves(training(2, 20), {std::vector<double>(6), {}}), ContractViolation);
}

// ---- against brute force ----

/// A plan is found exactly where brute force finds one, is sound, and costs the least. Returns that plan.
std::optional<MovePlan> expect_least(const MoveProblem& problem, std::optional<double> least_seconds) {
  auto plan = plan_moves(problem);
  EXPECT_EQ(plan.ok(), least_seconds.has_value()) << (plan.ok() ? "" : plan.error().message);
  if (!plan.ok() || !least_seconds) return {};
  expect_sound(problem, *plan);
  EXPECT_NEAR(plan->link_seconds, *least_seconds, 1e-6);
  return std::move(*plan);
}

TEST(MovePlanner, MovesAsLittleAsAnyPlanOverTwoTiers) {
  int n_that_fit = 0, n_that_move = 0;
  for (std::uint64_t seed = 1; seed <= test::n_seeds(300); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    MoveProblem problem = random_problem(random, {8, 12, 16});
    const std::uint64_t least = 4 + random() % 12;
    for (std::uint32_t m = 0; m < problem.n_moments; ++m) problem.room_bytes[0].push_back(least + random() % 4);
    problem.room_bytes[1].assign(problem.n_moments, kNoLimit);
    problem.costs = {1, 1 + static_cast<double>(random() % 2), 4, 6};
    send_some_away(random, problem);
    const auto plan = expect_least(problem, least_seconds_of_two_tiers(problem));
    ASSERT_FALSE(HasFailure());
    if (!plan) continue;
    ++n_that_fit;
    n_that_move += plan->link_seconds > 0 ? 1 : 0;
  }
  EXPECT_GT(n_that_fit, 20);
  EXPECT_GT(n_that_move, 10);
}

TEST(MovePlanner, PricesToBeginWithMakeNoPlanOrBoundWrong) {
  for (std::uint64_t seed = 1; seed <= test::n_seeds(50); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    MoveProblem problem = random_problem(random, {8, 12, 16});
    problem.room_bytes = {std::vector<std::uint64_t>(problem.n_moments, 4 + random() % 12),
                          std::vector<std::uint64_t>(problem.n_moments, kNoLimit)};
    problem.costs = {1, 1, 4, 6};
    RoomPrices first;
    for (auto& prices : first)
      for (std::uint32_t m = 0; m < problem.n_moments; ++m) prices.push_back(static_cast<double>(random() % 3) / 2);
    const auto least_seconds = least_seconds_of_two_tiers(problem);
    const auto plan = plan_moves(problem, first);
    ASSERT_EQ(plan.ok(), least_seconds.has_value());
    if (!plan.ok()) continue;
    expect_sound(problem, *plan);
    EXPECT_LE(plan->bound_seconds, *least_seconds + 1e-6);
    EXPECT_GE(plan->link_seconds, *least_seconds - 1e-6);
  }
}

TEST(MovePlanner, PricesOfAPlanLeadToOneNoWorse) {
  const auto problem = training(160, 750);
  const auto plan = plan_moves(problem).value();
  const auto again = plan_moves(problem, plan.prices).value();
  EXPECT_LE(again.link_seconds, plan.link_seconds * 1.001);
  EXPECT_GE(again.bound_seconds, plan.bound_seconds - 1e-6);
}

TEST(MovePlanner, MovesAsLittleAsAnyPlanOverThreeTiers) {
  int n_over_nvme = 0;
  for (std::uint64_t seed = 1; seed <= test::n_seeds(60); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    MoveProblem problem = random_problem(random, {4, 7, 5});
    for (auto& chunk : problem.chunks) {
      chunk.uses.resize(std::min<std::size_t>(chunk.uses.size(), 2));
      if (!chunk.uses.empty()) chunk.uses.back().dropped = chunk.uses.front().access == Access::overwrite;
    }
    for (auto& chunk : problem.chunks)
      for (auto& use : chunk.uses) use.tier = random() % 4 == 0 ? Tier::host : Tier::device;
    for (std::uint32_t m = 0; m < problem.n_moments; ++m) {
      problem.room_bytes[0].push_back(5 + random() % 8);
      problem.room_bytes[1].push_back(4 + random() % 8);
    }
    problem.costs = {1, 1, 3, 5};
    problem.nvme = random() % 4 != 0;
    for (auto& chunk : problem.chunks)
      for (ChunkUse& use : chunk.uses) use.n_behind = use.access == Access::read ? 0 : random() % 3;
    send_some_away(random, problem);
    const auto plan = expect_least(problem, least_seconds_of_three_tiers(problem));
    ASSERT_FALSE(HasFailure());
    if (!plan) continue;
    n_over_nvme += plan->moved.nvme_read + plan->moved.nvme_write > 0 ? 1 : 0;
  }
  EXPECT_GT(n_over_nvme, 0);
}

// ---- at the size of a model ----

// Where little moves, one chunk is a large part of the cost: the allowance is three moves of a chunk.
TEST(MovePlanner, ALargeModelIsPlannedWithinTwoPercentOfTheBound) {
  for (const std::uint64_t n_on_device : {1, 10, 75, 150}) {
    const auto problem = training(160, n_on_device * 10);
    const auto plan = plan_moves(problem).value();
    EXPECT_LE(plan.link_seconds, std::max(1.02 * plan.bound_seconds, plan.bound_seconds + 30)) << n_on_device;
    EXPECT_NEAR(naive_plan_seconds(problem, plan), plan.link_seconds, 1e-6 * plan.link_seconds);
  }
}

TEST(Places, AreNamedForPeople) {
  EXPECT_EQ(name(Places{test::kOnDevice | test::kOnNvme}), "device+nvme");
  EXPECT_EQ(name(kNowhere), "nowhere");
}

TEST(Places, HopsAreTheCheapestSteps) {
  const LinkCosts costs = {1, 2, 8, 32};
  for (Places from = 1; from < kNPlaces; ++from)
    for (Places to = 1; to < kNPlaces; ++to) {
      const Hops taken = hops(from, to);
      const double seconds = (taken.h2d ? costs.h2d : 0) + (taken.d2h ? costs.d2h : 0) +
                             (taken.nvme_read ? costs.nvme_read : 0) + (taken.nvme_write ? costs.nvme_write : 0);
      EXPECT_EQ(seconds, test::naive_step_seconds(from, to, costs)) << name(from) << " to " << name(to);
    }
  EXPECT_EQ(hops(test::kOnHost, kNowhere), Hops());
  EXPECT_THROW(hops(kNowhere, test::kOnHost), ContractViolation);
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/schedule/dry_run.h>

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <castor/memory/budget.h>

#include "../../support/seeds.h"
#include "../plan/naive_moves.h"
#include "../plan/round_robin.h"

namespace castor {
namespace {

using test::problem_with_room;
using test::round_robin;

StepEstimate run(const MoveProblem& problem, const MomentSeconds& seconds) {
  return plan_step(problem, seconds).value().estimate;
}

/// `n` moments that compute for `compute_s` on the device, and take no time of the thread.
MomentSeconds on_device(std::uint32_t n, double compute_s) {
  return {std::vector<double>(n, compute_s), std::vector<double>(n, 0)};
}

TEST(DryRun, WithoutMovesIsTheComputing) {
  const StepEstimate step = run(round_robin(4, 40), on_device(4, 3));
  EXPECT_EQ(step.step_s, 12);
  EXPECT_EQ(step.wait_s, 0);
  EXPECT_EQ(step.bound_by, "compute");
}

// The device computes for 5 s; meanwhile the thread, 1 s later, updates on the host for 3 s.
TEST(DryRun, TheThreadRunsAheadOfTheDevice) {
  MoveProblem problem = problem_with_room(2, Budget::kUnlimited, Budget::kUnlimited);
  problem.chunks = {{10, {{0, Tier::device, Access::read}}}, {10, {{1, Tier::host, Access::update}}}};
  EXPECT_EQ(run(problem, {{5, 3}, {1, 3}}).step_s, 5);
  EXPECT_EQ(run(problem, {{5, 3}, {3, 3}}).step_s, 6) << "a thread that takes longer to queue";
}

// Two chunks are used for 5 s each on the device, each of which makes a gradient that arrives on the host after 1 s and
// 2 s. Updates take 4 s, and the chunks are copied up in 1 s. Counted from the end of computing, the team updates from
// 1 to 9 s, and without overlap the device would compute from 9 to 19 s. With updates beside the thread the first chunk
// is up at 6 s and used until 11 s; the second, updated at 9 s, arrives behind the queued work, and is used from 12 to
// 17 s.
TEST(DryRun, UpdatesBesideTheThreadGoOnInTheNextForwardPass) {
  MoveProblem problem = problem_with_room(4, Budget::kUnlimited, Budget::kUnlimited);
  problem.costs.h2d = 0.1;
  problem.chunks = {{10, {{0, Tier::device, Access::read}, {2, Tier::host, Access::update}}},
                    {10, {{1, Tier::device, Access::read}, {3, Tier::host, Access::update}}},
                    {10, {{1, Tier::host, Access::overwrite, false, 1}, {2, Tier::host, Access::read, true}}},
                    {10, {{1, Tier::host, Access::overwrite, false, 1}, {3, Tier::host, Access::read, true}}}};
  EXPECT_EQ(run(problem, {{5, 5, 4, 4}, {0, 0, 4, 4}}).step_s, 19);
  problem.beside = {false, false, true, true};
  const StepEstimate step = run(problem, {{5, 5, 4, 4}, {0, 0, 0, 0}});
  EXPECT_EQ(step.step_s, 17);
  EXPECT_EQ(step.beside_s, 8);
  EXPECT_EQ(step.compute_s, 10);
}

TEST(DryRun, FetchesHideBehindComputingWhereThereIsRoom) {
  const auto seconds = [](std::uint64_t device_bytes) {
    const MoveProblem problem = round_robin(4, device_bytes);
    StepPlan step{test::all_go(problem)};
    step.moves = schedule_of(problem, step.plan, kFetchAhead);
    return dry_run(problem, on_device(4, 6), step).value().step_s;
  };
  EXPECT_EQ(seconds(10), 4 * 16) << "room for one: 10 s up, 6 s of computing";
  EXPECT_GE(seconds(20), 40) << "room for two: the link is busy for 40 s";
  EXPECT_LT(seconds(20), 64);
}

// The host holds two of three. After the last moment (at 0 s) its chunk is written down for 40 s; only then is there
// room for the gradient of the first moment. It arrives for 10 s, is applied for 1 s, and is replaced by the chunk that
// is read for 20 s, for the last moment's 1 s.
TEST(DryRun, AGradientWaitsForWhatMakesRoomForIt) {
  MoveProblem problem = problem_with_room(3, 0, 20);
  problem.nvme = true;
  problem.chunks = {{10, {{0, Tier::host, Access::overwrite, false, 10}, {1, Tier::host, Access::read, true}}},
                    {10, {{1, Tier::host, Access::update}}},
                    {10, {{2, Tier::host, Access::update}}}};
  const MomentSeconds seconds = {{1, 1, 1}, {0, 1, 1}};
  const StepEstimate step = run(problem, seconds);
  EXPECT_EQ(step.step_s, 40 + 10 + 1 + 20 + 1);
  EXPECT_EQ(step.moved.nvme_write, 10u);
  EXPECT_EQ(step.moved.nvme_read, 10u);
  EXPECT_EQ(step.moved.d2h, 10u);
}

TEST(DryRun, RepeatsAndIsNeverShorterThanItsLanes) {
  int n_planned = 0;
  for (std::uint64_t seed = 1; seed <= test::n_seeds(200); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    MoveProblem problem = test::random_problem(random, {8, 12, 16});
    problem.room_bytes[0].assign(problem.n_moments, 8 + random() % 20);
    problem.room_bytes[1].assign(problem.n_moments, 16 + random() % 20);
    problem.costs = {1, 1, 2, 4, 0.5};
    problem.nvme = true;
    const std::vector<double> three(problem.n_moments, 3);
    const MomentSeconds seconds = {three, three};
    const auto plan = plan_step(problem, seconds);
    if (!plan.ok()) continue;
    ++n_planned;
    const auto first = dry_run(problem, seconds, *plan), second = dry_run(problem, seconds, *plan);
    ASSERT_TRUE(first.ok()) << first.error().message;
    EXPECT_EQ(first->step_s, second->step_s);
    EXPECT_GE(first->step_s, 3.0 * problem.n_moments) << "what the moments compute";
  }
  EXPECT_GT(n_planned, static_cast<int>(test::n_seeds(200)) / 2);
}

// A plan for a machine with more memory.
TEST(DryRun, SaysWhatTheMoverSaysWhereItCannotGoOn) {
  const MoveProblem large = problem_with_room(1, Budget::kUnlimited, Budget::kUnlimited);
  MoveProblem small = problem_with_room(1, Budget::kUnlimited, 15);
  MoveProblem planned = large;
  for (MoveProblem* problem : {&small, &planned})
    problem->chunks = {{10, {{0, Tier::host, Access::update}}}, {10, {{0, Tier::host, Access::update}}}};
  const MomentSeconds seconds = {{1}, {1}};
  const auto refused = dry_run(small, seconds, plan_step(planned, seconds).value());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
}

}  // namespace
}  // namespace castor

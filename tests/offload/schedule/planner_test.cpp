// SPDX-License-Identifier: Apache-2.0
// Plans that are made beside the iterations: on a thread, or when the test says so.
#include <castor/schedule/planner.h>

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>

#include "../../support/held_planner.h"
#include "../../support/scheduled_mover.h"

namespace castor {
namespace {

using test::HeldPlanner;

TEST(Draft, IsMadeAtOnceByAnInlinePlanner) {
  InlinePlanner planner;
  Draft<int> draft(planner, [] { return 7; });
  ASSERT_TRUE(draft.ready());
  EXPECT_EQ(draft.take(), 7);
}

TEST(Draft, IsMadeOnAnotherThreadByAPlannerThread) {
  PlannerThread planner;
  Draft<std::thread::id> draft(planner, [] { return std::this_thread::get_id(); });
  while (!draft.ready()) std::this_thread::yield();
  EXPECT_NE(draft.take(), std::this_thread::get_id());
}

TEST(Draft, HandsOnWhatWasThrown) {
  PlannerThread planner;
  Draft<int> draft(planner, []() -> int { throw std::out_of_range("no plan"); });
  while (!draft.ready()) std::this_thread::yield();
  EXPECT_THROW(draft.take(), std::out_of_range);
}

TEST(Draft, IsNotMadeOnceItIsDropped) {
  HeldPlanner planner;
  bool made = false;
  auto draft = std::make_unique<Draft<bool>>(planner, [&made] { return made = true; });
  draft.reset();
  planner.release();
  EXPECT_FALSE(made);
}

TEST(Draft, ThatIsBeingMadeOutlivesItsOwner) {
  PlannerThread planner;
  for (int i = 0; i < 100; ++i) {
    Draft<std::string> first(planner, [] { return std::string(1000, 'a'); });
    if (i % 2 == 0) std::this_thread::yield();
  }
}

constexpr std::uint64_t kChunkBytes = 4096;
constexpr std::uint64_t kSecond = 1'000'000'000;

/// Iterations on the host above a drive, of which the first takes a second a moment and the others hardly any time: the
/// first plan states as many seconds, the one that is made from all times states less.
class BesideIterations : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kChunks = 6;

  BesideIterations() {
    for (std::uint32_t i = 0; i < kChunks; ++i) {
      const ChunkId id = tiers_.chunks.add(ChunkKind::payload, kChunkBytes, "chunk " + std::to_string(i));
      std::memset(mover_.open(id, Tier::host).value().data, static_cast<int>(i), kChunkBytes);
      tiers_.chunks.written(id, Tier::host);
    }
  }
  static Scheduler::Parts parts(StatefulTensorMgr& mover, Tiers& tiers, Planner& planner) {
    Scheduler::Parts parts = scheduler_parts(mover, tiers);
    parts.planner = &planner;
    return parts;
  }

  /// A moment that reads `chunk`.
  void moment(std::uint32_t chunk) {
    const std::array needs = {Need{ChunkId{chunk}, Tier::host, Access::read}};
    scheduler_.begin({MomentKind::forward, chunk}, needs).value();
    const std::byte* const data = tiers_.chunks.chunk(ChunkId{chunk}).at(Tier::host).buffer.data();
    EXPECT_EQ(std::to_integer<std::uint32_t>(data[kChunkBytes - 1]), chunk);
    tiers_.now_ns += n_iterations_ == 0 ? kSecond : 0;
    scheduler_.end(needs);
  }
  /// An iteration of the first `n` chunks in turn.
  void iteration(std::uint32_t n = kChunks) {
    for (std::uint32_t i = 0; i < n; ++i) moment(i);
    scheduler_.end_iteration();
    ++n_iterations_;
  }
  /// Iterations until the times are known, and one more, during which a plan is held.
  void until_a_plan_is_held() {
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(planner_.n_held(), 0u) << "iteration " << i;
      iteration();
    }
    ASSERT_EQ(planner_.n_held(), 1u);
  }
  bool follows_the_first_plan() const {
    return scheduler_.plan() != nullptr && scheduler_.plan()->estimate.step_s >= kChunks;
  }
  bool follows_the_second_plan() const {
    return scheduler_.plan() != nullptr && scheduler_.plan()->estimate.step_s < 1;
  }
  std::size_t n_planned_moments() const { return scheduler_.plan()->plan.used_bytes[0].size(); }

  Tiers tiers_{2 * kChunkBytes, 4 * kChunkBytes};
  StatefulTensorMgr mover_{mover_parts(tiers_)};
  HeldPlanner planner_;
  Scheduler scheduler_{parts(mover_, tiers_, planner_)};
  std::uint32_t n_iterations_ = 0;
};

TEST_F(BesideIterations, TheFirstPlanIsMadeAtOnce) {
  iteration();
  EXPECT_EQ(scheduler_.plan(), nullptr);
  moment(0);
  EXPECT_TRUE(follows_the_first_plan());
  EXPECT_EQ(planner_.n_held(), 0u);
}

TEST_F(BesideIterations, TheOldPlanIsFollowedUntilTheFirstMomentAfterTheNewOneIsMade) {
  until_a_plan_is_held();
  iteration();
  EXPECT_TRUE(follows_the_first_plan());
  EXPECT_TRUE(scheduler_.plan_pending());
  moment(0);
  planner_.release();
  EXPECT_TRUE(follows_the_first_plan());
  for (std::uint32_t i = 1; i < kChunks; ++i) moment(i);
  EXPECT_TRUE(follows_the_first_plan()) << "to the end of the iteration";
  scheduler_.end_iteration();
  EXPECT_TRUE(follows_the_first_plan());
  moment(0);
  EXPECT_TRUE(follows_the_second_plan());
  EXPECT_FALSE(scheduler_.plan_pending());
  for (std::uint32_t i = 1; i < kChunks; ++i) moment(i);
  scheduler_.end_iteration();
  iteration();
  EXPECT_TRUE(follows_the_second_plan());
  EXPECT_EQ(planner_.n_held(), 0u) << "and no other is made";
}

TEST_F(BesideIterations, APlanThatIsThereIsAlsoPutInForceBetweenTwoIterations) {
  until_a_plan_is_held();
  EXPECT_FALSE(scheduler_.advance_plan());
  EXPECT_TRUE(follows_the_first_plan());
  planner_.release();
  EXPECT_TRUE(scheduler_.advance_plan());
  EXPECT_TRUE(follows_the_second_plan());
}

TEST_F(BesideIterations, APlanOfAForgottenTraceIsDropped) {
  until_a_plan_is_held();
  scheduler_.forget_trace();
  planner_.release();
  EXPECT_TRUE(scheduler_.advance_plan());
  EXPECT_EQ(scheduler_.plan(), nullptr);
  iteration(4);
  EXPECT_EQ(scheduler_.plan(), nullptr) << "it is recorded";
  moment(0);
  EXPECT_EQ(n_planned_moments(), 4u);
}

TEST_F(BesideIterations, APlanOfAnIterationThatChangedIsDropped) {
  until_a_plan_is_held();
  iteration(4);
  planner_.release();
  moment(0);
  EXPECT_EQ(scheduler_.plan(), nullptr);
  for (std::uint32_t i = 1; i < 4; ++i) moment(i);
  scheduler_.end_iteration();
  moment(0);
  EXPECT_EQ(n_planned_moments(), 4u) << "it has come twice";
}

TEST_F(BesideIterations, APlanForAnotherBudgetIsDroppedAndMadeAnew) {
  until_a_plan_is_held();
  tiers_.host_budget.set_limit(3 * kChunkBytes);
  planner_.release();
  iteration();
  EXPECT_TRUE(follows_the_first_plan());
  iteration();
  EXPECT_TRUE(follows_the_first_plan());
  ASSERT_EQ(planner_.n_held(), 1u);
  planner_.release();
  iteration();
  EXPECT_TRUE(follows_the_second_plan());
  EXPECT_LE(scheduler_.plan()->plan.peak_bytes(Tier::host), 3 * kChunkBytes);
}

/// The kind of iterations that has no plan is planned at once, while a plan of the other kind waits for its iteration.
TEST_F(BesideIterations, EachKindOfIterationHasAPlanOfItsOwn) {
  until_a_plan_is_held();
  scheduler_.select(IterationKind::speculative);
  iteration(4);
  planner_.release();
  iteration(4);
  EXPECT_EQ(n_planned_moments(), 4u);
  scheduler_.select(IterationKind::plain);
  iteration();
  EXPECT_TRUE(follows_the_second_plan());
}

}  // namespace
}  // namespace castor

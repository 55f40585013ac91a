// SPDX-License-Identifier: Apache-2.0
#include "tuning/stream_trial.h"

#include <gtest/gtest.h>

#include <vector>

namespace castor {
namespace {

/// A trial with steps of given durations.
struct TimedTrial {
  StreamTrial trial;
  std::uint64_t now_ns = 1'000'000'000;

  void steps(const std::vector<double>& seconds) {
    for (const double step_s : seconds) trial.note_step(now_ns += static_cast<std::uint64_t>(step_s * 1e9));
  }
};

TEST(StreamTrial, TheMedianOfTheLastThreeStepsCounts) {
  TimedTrial timed;
  timed.steps({10, 1, 5, 3, 9});
  EXPECT_FALSE(timed.trial.begun());
  EXPECT_DOUBLE_EQ(timed.trial.step_s(), 5);
  EXPECT_EQ(timed.trial.begin(0.6), 0.6);
  EXPECT_TRUE(timed.trial.begun());
  EXPECT_DOUBLE_EQ(timed.trial.without().step_s, 5);
  timed.steps({12, 1, 2, 4});
  (void)timed.trial.judge();
  EXPECT_DOUBLE_EQ(timed.trial.best().step_s, 2);
}

struct Step {
  double share, seconds;
};

/// The share that is kept where steps take `without_s` without streams, and then as `expected` says: pairs of shares
/// and durations in the order of the trial.
double kept(double without_s, const std::vector<Step>& expected) {
  TimedTrial timed;
  timed.steps({1, without_s, without_s, without_s});
  double share = timed.trial.begin(0.6);
  for (const Step& step : expected) {
    EXPECT_FALSE(timed.trial.over());
    EXPECT_DOUBLE_EQ(share, step.share);
    timed.steps({step.seconds, step.seconds, step.seconds});
    share = timed.trial.judge();
  }
  EXPECT_TRUE(timed.trial.over());
  EXPECT_EQ(timed.trial.best().share, share);
  return share;
}

TEST(StreamTrial, KeepsTheShareWithTheShortestSteps) {
  EXPECT_EQ(kept(3, {{0.6, 2}, {0.4, 2.5}}), 0.6);
  EXPECT_DOUBLE_EQ(kept(3, {{0.6, 2}, {0.4, 1.5}, {0.8 / 3, 1.75}}), 0.4);
  EXPECT_DOUBLE_EQ(kept(3, {{0.6, 4}, {0.3, 2.5}, {0.2, 2.75}}), 0.3) << "too much of it: half";
  EXPECT_EQ(kept(3, {{0.6, 4}, {0.3, 3.5}}), 0);
  EXPECT_EQ(kept(3, {{0.6, 3}, {0.3, 3}}), 0) << "none where nothing is gained";
}

TEST(StreamTrial, GoesOnToSmallerSharesAsLongAsThatHelps) {
  EXPECT_DOUBLE_EQ(kept(3, {{0.6, 2.5}, {0.4, 2.25}, {0.8 / 3, 2}, {1.6 / 9, 2.125}}), 0.8 / 3);
  EXPECT_DOUBLE_EQ(kept(3, {{0.6, 2.5}, {0.4, 2.25}, {0.8 / 3, 2}, {1.6 / 9, 1.75}}), 1.6 / 9) << "four at the most";
}

TEST(StreamTrial, IsOverAtOnceWhereNothingIsToBeGained) {
  TimedTrial timed;
  timed.steps({1, 3, 3, 3});
  EXPECT_EQ(timed.trial.begin(0), 0);
  EXPECT_TRUE(timed.trial.over());
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "stream_trial.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace castor {
namespace {

/// A trial whose steps take as long as it is told.
struct TimedTrial {
  StreamTrial trial;
  std::uint64_t now_ns = 1'000'000'000;

  void steps(const std::vector<double>& seconds) {
    for (const double step_s : seconds) trial.note_step(now_ns += static_cast<std::uint64_t>(step_s * 1e9));
  }
};

TEST(StreamTrial, TheFirstStepHasNoLength) {
  TimedTrial timed;
  timed.steps({5});
  EXPECT_TRUE(std::isinf(timed.trial.recent_s()));
}

TEST(StreamTrial, TheShorterOfTheLastTwoStepsCounts) {
  TimedTrial timed;
  timed.steps({10, 1, 5, 3, 9});
  EXPECT_DOUBLE_EQ(timed.trial.recent_s(), 3);
  EXPECT_FALSE(timed.trial.begun());
  EXPECT_EQ(timed.trial.begin(0.6), 0.6);
  EXPECT_TRUE(timed.trial.begun());
  timed.steps({12});
  EXPECT_DOUBLE_EQ(timed.trial.recent_s(), 12) << "those before do not count";
  timed.steps({2});
  EXPECT_DOUBLE_EQ(timed.trial.recent_s(), 2);
  EXPECT_DOUBLE_EQ(timed.trial.without().step_s, 3);
}

/// The share kept where steps take `without_s`, then `modelled_s` with a share of 0.6 and `smaller_s` with the next.
double kept(double without_s, double modelled_s, double smaller_s, double smaller) {
  TimedTrial timed;
  timed.steps({1, without_s});
  EXPECT_EQ(timed.trial.begin(0.6), 0.6);
  timed.steps({modelled_s, modelled_s});
  EXPECT_DOUBLE_EQ(timed.trial.judge(), smaller);
  EXPECT_FALSE(timed.trial.over());
  timed.steps({smaller_s, smaller_s});
  const double share = timed.trial.judge();
  EXPECT_TRUE(timed.trial.over());
  EXPECT_EQ(timed.trial.best().share, share);
  return share;
}

TEST(StreamTrial, KeepsTheShareWithTheShortestSteps) {
  EXPECT_EQ(kept(3, 2, 2.5, 0.4), 0.6);
  EXPECT_DOUBLE_EQ(kept(3, 2, 1.5, 0.4), 0.4);
  EXPECT_DOUBLE_EQ(kept(3, 4, 2.5, 0.3), 0.3) << "too much of it: half";
  EXPECT_EQ(kept(3, 4, 3.5, 0.3), 0);
  EXPECT_EQ(kept(3, 3, 3, 0.3), 0) << "none where nothing is gained";
}

TEST(StreamTrial, IsOverAtOnceWhereNothingIsToBeGained) {
  TimedTrial timed;
  timed.steps({1, 3});
  EXPECT_EQ(timed.trial.begin(0), 0);
  EXPECT_TRUE(timed.trial.over());
}

}  // namespace
}  // namespace castor

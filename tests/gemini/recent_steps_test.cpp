// SPDX-License-Identifier: Apache-2.0
#include "tuning/recent_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace castor {
namespace {

/// Steps that end at these seconds.
void note(RecentSteps& steps, const std::vector<std::uint64_t>& at_s) {
  for (const std::uint64_t s : at_s) steps.note(s * 1'000'000'000);
}

TEST(RecentSteps, TheFirstStepHasNoLength) {
  RecentSteps steps;
  note(steps, {5, 7, 10});
  EXPECT_TRUE(std::isinf(steps.median_s())) << "two of five";
  note(steps, {14});
  EXPECT_DOUBLE_EQ(steps.median_s(), 4) << "of 2, 3, 4 and two that are not known";
}

TEST(RecentSteps, KnowsTheMedianOfFive) {
  RecentSteps steps;
  note(steps, {1, 2, 7, 10, 14, 16});
  EXPECT_DOUBLE_EQ(steps.median_s(), 3) << "of 1, 5, 3, 4 and 2";
  note(steps, {25});
  EXPECT_DOUBLE_EQ(steps.median_s(), 4) << "of 5, 3, 4, 2 and 9";
  note(steps, {26, 27});
  EXPECT_DOUBLE_EQ(steps.median_s(), 2) << "of 4, 2, 9, 1 and 1";
}

TEST(RecentSteps, WhatIsForgottenDoesNotCountAndTheNextStepHasALength) {
  RecentSteps steps;
  note(steps, {1, 2, 3, 4, 5, 6});
  steps.forget();
  EXPECT_TRUE(std::isinf(steps.median_s()));
  note(steps, {15, 22, 30});
  EXPECT_DOUBLE_EQ(steps.median_s(), 9) << "of 9, 7, 8 and two that are not known";
}

TEST(RecentSteps, AreSettledWhenFiveHaveFollowedTheFirst) {
  RecentSteps steps;
  std::uint64_t at_s = 0;
  const auto n_until_settled = [&] {
    int n_steps = 0;
    for (; !steps.settled(); ++n_steps) note(steps, {++at_s});
    return n_steps;
  };
  EXPECT_EQ(n_until_settled(), 7) << "the end of the step before, the first, and five";
  steps.forget();
  EXPECT_EQ(n_until_settled(), 6);
}

TEST(RecentSteps, KnowOneStepInTwoThatIsOutOfTheWay) {
  RecentSteps steps;
  note(steps, {1, 3, 5});
  EXPECT_TRUE(std::isinf(steps.median_s())) << "two of five";
  note(steps, {14, 16});
  EXPECT_DOUBLE_EQ(steps.median_s(), 2) << "of 2, 2, 9 and 2";
  note(steps, {25});
  EXPECT_DOUBLE_EQ(steps.median_s(), 2) << "of 2, 2, 9, 2 and 9";
  EXPECT_FALSE(steps.settled());
  note(steps, {26});
  EXPECT_TRUE(steps.settled());
}

}  // namespace
}  // namespace castor

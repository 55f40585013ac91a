// SPDX-License-Identifier: Apache-2.0
#include "tuning/recent_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace castor {
namespace {

/// Steps that end at these seconds.
template <typename Steps>
void note(Steps& steps, const std::vector<std::uint64_t>& at_s) {
  for (const std::uint64_t s : at_s) steps.note(s * 1'000'000'000);
}

TEST(RecentSteps, TheFirstStepHasNoLength) {
  RecentSteps<> steps;
  note(steps, {5, 7});
  EXPECT_TRUE(std::isinf(steps.median_s()));
  note(steps, {10});
  EXPECT_DOUBLE_EQ(steps.median_s(), 3);
}

TEST(RecentSteps, KnowsTheMedianOfThree) {
  RecentSteps<> steps;
  note(steps, {1, 2, 7, 10});
  EXPECT_DOUBLE_EQ(steps.median_s(), 3);
  note(steps, {14});
  EXPECT_DOUBLE_EQ(steps.median_s(), 4) << "of 5, 3 and 4";
  note(steps, {15});
  EXPECT_DOUBLE_EQ(steps.median_s(), 3) << "of 3, 4 and 1";
}

TEST(RecentSteps, WhatIsForgottenDoesNotCountAndTheNextStepHasALength) {
  RecentSteps<> steps;
  note(steps, {1, 2, 3, 4});
  steps.forget();
  EXPECT_TRUE(std::isinf(steps.median_s()));
  note(steps, {13, 20});
  EXPECT_DOUBLE_EQ(steps.median_s(), 9);
}

TEST(RecentSteps, AreSettledWhenThreeHaveFollowedTheFirst) {
  RecentSteps<> steps;
  std::vector<bool> settled;
  const auto note_one = [&](std::uint64_t at_s) {
    note(steps, {at_s});
    settled.push_back(steps.settled());
  };
  for (const std::uint64_t at_s : {1, 2, 3, 4, 5}) note_one(at_s);
  steps.forget();
  for (const std::uint64_t at_s : {6, 7, 8, 9}) note_one(at_s);
  EXPECT_EQ(settled, (std::vector<bool>{false, false, false, false, true, false, false, false, true}));
}

TEST(RecentSteps, ALongerMedianKnowsOneStepInTwoThatIsOutOfTheWay) {
  RecentSteps<5> steps;
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

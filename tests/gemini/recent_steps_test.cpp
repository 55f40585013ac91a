// SPDX-License-Identifier: Apache-2.0
#include "recent_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace castor {
namespace {

TEST(RecentSteps, TheFirstStepHasNoLength) {
  RecentSteps steps;
  steps.note(5'000'000'000);
  EXPECT_TRUE(std::isinf(steps.shorter_s()));
  steps.note(7'000'000'000);
  EXPECT_DOUBLE_EQ(steps.shorter_s(), 2);
}

TEST(RecentSteps, KeepsTheShorterOfTwo) {
  RecentSteps steps;
  for (const std::uint64_t at : {1, 2, 7, 10}) steps.note(at * 1'000'000'000);
  EXPECT_DOUBLE_EQ(steps.shorter_s(), 3);
}

TEST(RecentSteps, WhatIsForgottenDoesNotCountAndTheNextStepHasALength) {
  RecentSteps steps;
  for (const std::uint64_t at : {1, 2, 3}) steps.note(at * 1'000'000'000);
  steps.forget();
  EXPECT_TRUE(std::isinf(steps.shorter_s()));
  steps.note(12'000'000'000);
  EXPECT_DOUBLE_EQ(steps.shorter_s(), 9);
}

TEST(RecentSteps, AreSettledWhenTwoHaveFollowedTheFirst) {
  RecentSteps steps;
  std::vector<bool> settled;
  const auto note = [&](std::uint64_t at_s) {
    steps.note(at_s * 1'000'000'000);
    settled.push_back(steps.settled());
  };
  for (const std::uint64_t at_s : {1, 2, 3, 4}) note(at_s);
  steps.forget();
  for (const std::uint64_t at_s : {5, 6, 7}) note(at_s);
  EXPECT_EQ(settled, (std::vector<bool>{false, false, false, true, false, false, true}));
}

}  // namespace
}  // namespace castor

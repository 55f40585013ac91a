// SPDX-License-Identifier: Apache-2.0
#include "recent_steps.h"

#include <gtest/gtest.h>

#include <cmath>

namespace castor {
namespace {

TEST(RecentSteps, TheFirstStepHasNoLength) {
  RecentSteps steps;
  steps.note(5'000'000'000);
  EXPECT_TRUE(std::isinf(steps.shorter_s()));
  steps.note(7'000'000'000);
  EXPECT_DOUBLE_EQ(steps.shorter_s(), 2);
  EXPECT_FALSE(steps.two());
}

TEST(RecentSteps, KeepsTheShorterOfTwo) {
  RecentSteps steps;
  for (const std::uint64_t at : {1, 2, 7, 10}) steps.note(at * 1'000'000'000);
  EXPECT_TRUE(steps.two());
  EXPECT_DOUBLE_EQ(steps.shorter_s(), 3);
}

TEST(RecentSteps, WhatIsForgottenDoesNotCountAndTheNextStepHasALength) {
  RecentSteps steps;
  for (const std::uint64_t at : {1, 2, 3}) steps.note(at * 1'000'000'000);
  steps.forget();
  EXPECT_TRUE(std::isinf(steps.shorter_s()));
  steps.note(12'000'000'000);
  EXPECT_DOUBLE_EQ(steps.shorter_s(), 9);
  EXPECT_FALSE(steps.two());
}

}  // namespace
}  // namespace castor

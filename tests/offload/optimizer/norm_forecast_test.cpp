// SPDX-License-Identifier: Apache-2.0
#include "norms/norm_forecast.h"

#include <gtest/gtest.h>

#include <random>

namespace castor {
namespace {

struct Count {
  int right = 0, wrong = 0;  ///< forecasts that a norm will be plain
};

/// Right and wrong forecasts of `n` norms, the i-th of which is plain where `plain(i)`.
template <typename Plain>
Count count(NormForecast& forecast, int n, Plain plain) {
  Count found;
  for (int i = 0; i < n; ++i) {
    const bool was_plain = plain(i);
    if (forecast.plain()) ++(was_plain ? found.right : found.wrong);
    forecast.note(was_plain);
  }
  return found;
}

TEST(NormForecast, ExpectsNothingBeforeTheFirstNorm) { EXPECT_FALSE(NormForecast().plain()); }

TEST(NormForecast, TheSecondPlainNormIsExpected) {
  NormForecast forecast;
  EXPECT_EQ(count(forecast, 100, [](int) { return true; }).right, 99);
}

TEST(NormForecast, IsWrongOnceWhereEveryOtherNormIsTooLarge) {
  NormForecast forecast;
  const Count found = count(forecast, 1000, [](int i) { return i % 2 == 0; });
  EXPECT_EQ(found.wrong, 1);
  EXPECT_EQ(found.right, 0);
}

/// 1, 2, 4 and 8 norms are enough in turn, and then 16, which never occur: four wrong forecasts, before the 2nd, 3rd,
/// 5th and 9th of the plain ones at the earliest.
TEST(NormForecast, GivesUpWhereTwelveInARowAreFollowedByOneThatIsTooLarge) {
  NormForecast forecast;
  const auto thirteenth = [](int i) { return i % 13 != 12; };
  EXPECT_EQ(count(forecast, 13 * 100, thirteenth).wrong, 4);
  EXPECT_EQ(count(forecast, 13 * 100, thirteenth).right, 0);
}

/// After one wrong forecast two in a row are enough, and after 8 × 2 right ones a single one is again.
TEST(NormForecast, AWrongOneIsMadeGoodByEnoughRightOnes) {
  NormForecast forecast;
  const auto all = [](int) { return true; };
  const auto none = [](int) { return false; };
  (void)count(forecast, 2, all);
  EXPECT_EQ(count(forecast, 1, none).wrong, 1);
  EXPECT_EQ(count(forecast, 2 + 15, all).right, 15);
  (void)count(forecast, 1, none);                     // too early: four are enough now
  EXPECT_EQ(count(forecast, 4 + 32, all).right, 32);  // two again
  EXPECT_EQ(count(forecast, 16, all).right, 16);      // one again
  (void)count(forecast, 1, none);
  EXPECT_EQ(count(forecast, 5, all).right, 3) << "two in a row were enough";
}

TEST(NormForecast, RandomNormsHalfOfWhichAreTooLargeAreSeldomExpectedToBePlain) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    NormForecast forecast;
    EXPECT_LE(count(forecast, 1000, [&](int) { return random() % 2 == 0; }).wrong, 10);
  }
}

TEST(NormForecast, OneInAHundredCostsFewForecasts) {
  NormForecast forecast;
  const Count found = count(forecast, 10000, [](int i) { return i % 100 != 99; });
  EXPECT_EQ(found.wrong, 100);
  EXPECT_GE(found.right, 9500);
}

}  // namespace
}  // namespace castor

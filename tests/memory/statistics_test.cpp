// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/statistics.h>

#include <gtest/gtest.h>

#include <limits>

#include <castor/memory/result.h>

namespace castor {
namespace {

TEST(Median, OfAnOddNumberIsTheOneInTheMiddle) {
  for (const Middle of_two : {Middle::lower, Middle::mean, Middle::upper}) {
    EXPECT_EQ(median({7}, of_two), 7);
    EXPECT_EQ(median({9, 1, 4}, of_two), 4);
    EXPECT_EQ(median({5, 5, 1, 2, 9}, of_two), 5);
  }
}

TEST(Median, OfAnEvenNumberIsTheMeanOfTheTwoInTheMiddle) {
  EXPECT_EQ(median({1, 4}), 2.5);
  EXPECT_EQ(median({8, 100, 1, 3}), 5.5);
}

TEST(Median, OfAnEvenNumberIsTheOneThatIsAskedFor) {
  EXPECT_EQ(median({8, 100, 1, 3}, Middle::lower), 3);
  EXPECT_EQ(median({8, 100, 1, 3}, Middle::upper), 8);
}

TEST(Median, TakesInfiniteValues) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(median({infinity, 2, infinity}), infinity);
  EXPECT_EQ(median({infinity, 2, 1}), 2);
}

TEST(Median, OfNothingIsABrokenContract) { EXPECT_THROW((void)median({}), ContractViolation); }

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "tuning/share_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace castor {
namespace {

/// Steps of 1 s that become shorter by `gain` per share up to `best`, and longer again beyond it.
struct Valley {
  double best, gain;
  double operator()(double share) const { return 1 - gain * (share < best ? share : 2 * best - share); }
};

struct Search {
  double found = 0;
  std::vector<double> tried;
};

template <typename StepSeconds>
Search search(double modelled, const StepSeconds& step_s) {
  Search search;
  search.found = search_share(modelled, 1, [&](double share) {
    search.tried.push_back(share);
    return step_s(share);
  });
  return search;
}

/// The shares tried save 0.06, 0.185, 0.28, 0.21 and 0.158: the last is less than 0.6 of the best.
TEST(ShareSearch, FindsTheSmallestShareWithMostOfTheGain) {
  const Search valley = search(0.5, Valley{0.28, 1});
  EXPECT_EQ(valley.tried, (std::vector<double>{0.5, 0.375, 0.28125, 0.2109375, 0.158203125}));
  EXPECT_EQ(valley.found, 0.2109375);
  const Search slope = search(0.5, Valley{1, 1});
  EXPECT_EQ(slope.tried, (std::vector<double>{0.5, 0.375, 0.28125})) << "the first is the best";
  EXPECT_EQ(slope.found, 0.375);
  const auto cliff = [](double share) { return share > 0.4 ? 0.7 : share > 0.3 ? 0.5 : 0.72; };
  EXPECT_EQ(search(0.5, cliff).found, 0.375) << "0.28 is less than 0.6 of 0.5";
}

TEST(ShareSearch, TriesTheSameSharesOnMachinesThatDifferLittle) {
  for (const double modelled : {0.44, 0.5, 0.57}) EXPECT_EQ(search(modelled, Valley{1, 1}).tried.front(), 0.5);
  for (const double modelled : {0.33, 0.43}) EXPECT_EQ(search(modelled, Valley{1, 1}).tried.front(), 0.375);
  EXPECT_NEAR(search(1, Valley{1, 1}).tried.front(), 8.0 / 9, 1e-12) << "not more than all";
}

TEST(ShareSearch, GoesOnPastSharesThatSaveNothing) {
  EXPECT_NEAR(search(0.5, [](double share) { return share > 0.1 ? 1.5 : 0.8; }).found, 0.5 * std::pow(0.75, 7), 1e-12)
      << "eight at the most";
  const Search narrow = search(0.5, [](double share) { return share > 0.01 ? 1.5 : 0.8; });
  EXPECT_EQ(narrow.tried.size(), 8u);
  EXPECT_EQ(narrow.found, 0);
}

TEST(ShareSearch, FindsTheLargestThatCostsNothingWhereNoneSavesATenth) {
  EXPECT_EQ(search(0.5, Valley{0.5, 0.21}).found, 0.375) << "it saves 0.105";
  EXPECT_EQ(search(0.5, Valley{0.5, 0.19}).found, 0.5) << "it saves 0.095";
  EXPECT_EQ(search(0.5, [](double) { return 1.0; }).found, 0.5);
  EXPECT_EQ(search(0.5, [](double share) { return share > 0.3 ? 1.1 : 1.01; }).found, 0.28125);
  EXPECT_EQ(search(0.5, [](double) { return 1.03; }).found, 0);
}

TEST(ShareSearch, PassesOverSharesThatCannotBePlanned) {
  const auto fits = [](double share) { return share > 0.4 ? std::numeric_limits<double>::infinity() : 0.8; };
  EXPECT_NEAR(search(0.5, fits).found, 0.5 * std::pow(0.75, 7), 1e-12) << "all others save the same";
  EXPECT_EQ(search(0.5, [](double) { return std::numeric_limits<double>::infinity(); }).found, 0);
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "tuning/share_search.h"

#include <gtest/gtest.h>

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

TEST(ShareSearch, GoesOnToSmallerSharesAsLongAsStepsBecomeShorter) {
  EXPECT_EQ(search(0.5, Valley{0.28, 1}).tried, (std::vector<double>{0.5, 0.375, 0.28125, 0.2109375}));
  EXPECT_EQ(search(0.5, Valley{1, 1}).tried, (std::vector<double>{0.5, 0.375})) << "the first is the best";
  EXPECT_EQ(search(0.5, Valley{0.01, 30}).tried.size(), 6u) << "six at the most";
}

/// Of the shares tried first the best saves 0.27875, the smallest 0.2109375: more than three quarters.
TEST(ShareSearch, FindsTheSmallestShareWithMostOfTheGain) {
  EXPECT_EQ(search(0.5, Valley{0.28, 1}).found, 0.2109375);
  EXPECT_EQ(search(0.5, Valley{1, 1}).found, 0.375) << "exactly three quarters";
  const auto steep = [](double share) { return share > 0.3 ? 0.7 : share > 0.25 ? 0.6 : 0.72; };
  EXPECT_EQ(search(0.5, steep).tried.size(), 2u) << "as short is not shorter";
  const auto saves_too_little = [](double share) { return share > 0.4 ? 0.7 : share > 0.3 ? 0.6 : 0.72; };
  EXPECT_EQ(search(0.5, saves_too_little).found, 0.375) << "0.28 is less than three quarters of 0.4";
}

TEST(ShareSearch, FindsNoneThatSavesLessThanATenth) {
  EXPECT_EQ(search(0.5, Valley{0.5, 0.21}).found, 0.375);
  EXPECT_EQ(search(0.5, Valley{0.5, 0.19}).found, 0);
  EXPECT_EQ(search(0.5, [](double) { return 1.0; }).found, 0);
  EXPECT_EQ(search(0.5, [](double) { return 2.0; }).found, 0);
}

TEST(ShareSearch, PassesOverSharesThatCannotBePlanned) {
  const auto fits = [](double share) { return share > 0.4 ? std::numeric_limits<double>::infinity() : 0.8; };
  EXPECT_EQ(search(0.5, fits).found, 0.28125);
  EXPECT_EQ(search(0.5, [](double) { return std::numeric_limits<double>::infinity(); }).found, 0);
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "stripes/stripe_rates.h"

#include <gtest/gtest.h>

#include <vector>

#include "stripe_units.h"

namespace castor::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// Drives whose transfers take the times that the test sets.
class StripeRatesTest : public ::testing::Test {
 protected:
  std::vector<double> shares(const StripeRates& rates, std::size_t n_volumes) const {
    std::vector<double> shares(n_volumes);
    rates.shares(now_ns_, shares);
    return shares;
  }
  /// `n` transfers one after the other on `volume`.
  void move(StripeRates& rates, std::size_t volume, int n, std::uint64_t n_bytes, std::uint64_t took_ns) {
    for (int i = 0; i < n; ++i) {
      rates.started(volume, now_ns_);
      now_ns_ += took_ns;
      rates.ended(volume, n_bytes, now_ns_);
    }
  }
  std::uint64_t now_ns_ = 12345;
};

TEST_F(StripeRatesTest, VolumesBeginEqual) {
  const StripeRates rates(4);
  EXPECT_EQ(shares(rates, 4), (std::vector<double>{0.25, 0.25, 0.25, 0.25}));
}

TEST_F(StripeRatesTest, SharesFollowTheRates) {
  StripeRates rates(2);
  move(rates, 0, 64, kMiB, kMs);
  EXPECT_EQ(shares(rates, 2)[0], 0.5);  // a volume without a sample counts like the mean of the others
  move(rates, 1, 64, kMiB, 3 * kMs);
  EXPECT_NEAR(shares(rates, 2)[0], 0.75, 0.01);
}

TEST_F(StripeRatesTest, ADriveThatTurnsFourTimesSlowerGetsAFifthAndRecovers) {
  StripeRates rates(2);
  for (int round = 0; round < 10; ++round) {
    move(rates, 0, 64, kMiB, kMs);
    move(rates, 1, 64, kMiB, kMs);
  }
  EXPECT_NEAR(shares(rates, 2)[1], 0.5, 0.001);
  // A second of a drive at 250 MiB/s is ten samples: 0.75^10 = 6 % of the old rate is left, so
  // (0.25 + 0.75·0.06) = 0.29 of 1.29.
  move(rates, 1, 250, kMiB, 4 * kMs);
  EXPECT_NEAR(shares(rates, 2)[1], 0.295 / 1.295, 0.01);
  move(rates, 1, 1000, kMiB, 4 * kMs);
  EXPECT_NEAR(shares(rates, 2)[1], 0.2, 0.005);
  move(rates, 1, 64 * 20, kMiB, kMs);
  EXPECT_NEAR(shares(rates, 2)[1], 0.5, 0.005);
}

TEST_F(StripeRatesTest, BusyTimeIsTheUnionOfTheIntervals) {
  StripeRates rates(2);
  // 16 transfers at a time on volume 0: each takes 16 ms, together they take 16 ms, not 256.
  for (int batch = 0; batch < 4; ++batch) {
    for (int i = 0; i < 16; ++i) rates.started(0, now_ns_);
    now_ns_ += 16 * kMs;
    for (int i = 0; i < 16; ++i) rates.ended(0, kMiB, now_ns_);
    now_ns_ += 5000 * kMs;  // a pause is not busy
  }
  move(rates, 1, 64, kMiB, kMs);
  EXPECT_NEAR(shares(rates, 2)[0], 0.5, 0.001);
}

TEST_F(StripeRatesTest, NoVolumeGetsLessThanTwoInAHundred) {
  StripeRates rates(3);
  move(rates, 0, 64, kMiB, kMs);
  move(rates, 1, 64, kMiB, kMs);
  move(rates, 2, 100, 4096, 100 * kMs);
  const auto now = shares(rates, 3);
  EXPECT_DOUBLE_EQ(now[2], 0.02);
  EXPECT_DOUBLE_EQ(now[0], 0.49);
  EXPECT_DOUBLE_EQ(now[1], 0.49);
}

TEST_F(StripeRatesTest, ADriveThatHangsOrFailsLosesItsShare) {
  StripeRates rates(2);
  move(rates, 0, 64, kMiB, kMs);
  move(rates, 1, 64, kMiB, kMs);
  rates.started(1, now_ns_);
  now_ns_ += 99 * kMs;
  EXPECT_DOUBLE_EQ(shares(rates, 2)[1], 0.5);
  now_ns_ += 5000 * kMs;
  EXPECT_DOUBLE_EQ(shares(rates, 2)[1], 0.02);  // while it hangs
  rates.ended(1, 0, now_ns_);
  EXPECT_DOUBLE_EQ(shares(rates, 2)[1], 0.02);  // after it has failed
}

TEST_F(StripeRatesTest, ClocksOfSeveralThreadsMayCross) {
  StripeRates rates(2);
  rates.started(0, 2000);
  rates.started(0, 1000);
  rates.ended(0, 64 * kMiB, 1500);  // before the first began: counts no time
  rates.ended(0, 64 * kMiB, 64 * kMs);
  rates.ended(0, 64 * kMiB, 65 * kMs);  // an end too many is not counted
  const auto now = shares(rates, 2);
  EXPECT_GT(now[0], 0);
  EXPECT_NEAR(now[0] + now[1], 1, 1e-12);
}

}  // namespace
}  // namespace castor::test

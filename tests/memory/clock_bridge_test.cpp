// SPDX-License-Identifier: Apache-2.0
#include "clock_bridge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace castor {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

TEST(ClockBridge, APointThatCameLaterThanThoughtCorrectsAllAfterIt) {
  ClockBridge bridge(100 * kMs);
  EXPECT_EQ(bridge.place(0, 100 * kMs, 500 * kMs), 100 * kMs);
  EXPECT_EQ(bridge.place(0.010, 150 * kMs, 500 * kMs), 150 * kMs);
  EXPECT_EQ(bridge.place(0.020, 100 * kMs, 500 * kMs), 160 * kMs);
}

TEST(ClockBridge, SoDoesOneThatWasSeenEarlier) {
  ClockBridge bridge(100 * kMs);
  EXPECT_EQ(bridge.place(0.300, 100 * kMs, 350 * kMs), 350 * kMs);
  EXPECT_EQ(bridge.place(-0.010, 0, 500 * kMs), 40 * kMs);
}

TEST(ClockBridge, DistancesCountFromTheNewBase) {
  ClockBridge bridge(100 * kMs);
  bridge.move_base(2.5);
  EXPECT_EQ(bridge.place(-0.5, 0, 9000 * kMs), 2100 * kMs);
}

/// A clock that runs 50 millionths too fast and whose points are seen up to 30 ms after they were reached, one in eight
/// of them at once: times are right to a fraction of a millisecond all the same.
TEST(ClockBridge, FollowsAClockThatDrifts) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> up_to_one(0, 1);
  const double start_s = 1000;
  ClockBridge bridge(static_cast<std::uint64_t>(start_s * 1e9));
  double t_s = start_s, base_s = start_s, worst_s = 0;
  const auto by_device = [](double host_s) { return host_s * (1 + 50e-6); };
  for (int point = 0; point < 20000; ++point) {
    t_s += 0.002 * up_to_one(random);
    const double queued_s = t_s - 0.030 * up_to_one(random);
    const double seen_s = t_s + (point % 8 == 0 ? 20e-6 : 0.030 * up_to_one(random));
    const double distance_s = by_device(t_s) - by_device(base_s);
    const auto ns = bridge.place(distance_s, static_cast<std::uint64_t>(std::max(start_s, queued_s) * 1e9),
                                 static_cast<std::uint64_t>(seen_s * 1e9));
    if (point > 1000) worst_s = std::max(worst_s, std::abs(static_cast<double>(ns) * 1e-9 - t_s));
    if (distance_s > 4) bridge.move_base(distance_s), base_s = t_s;
  }
  EXPECT_LT(worst_s, 1e-3);
}

}  // namespace
}  // namespace castor

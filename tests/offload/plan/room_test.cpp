// SPDX-License-Identifier: Apache-2.0
#include "moves/room.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace castor {
namespace {

Periods random_periods(std::mt19937_64& random, std::uint32_t n_moments) {
  const auto first = static_cast<std::uint32_t>(random() % n_moments);
  return {first, static_cast<std::uint32_t>(random() % (n_moments + 1))};
}

/// The naive model: one number for each period.
void add_to(std::vector<std::int64_t>& bytes, Periods periods, std::int64_t n_bytes) {
  for (std::uint32_t k = 0; k < periods.count; ++k) bytes[(periods.first + k) % bytes.size()] += n_bytes;
}

std::int64_t least_of(const std::vector<std::int64_t>& bytes, Periods periods) {
  auto least = bytes[periods.first];
  for (std::uint32_t k = 0; k < periods.count; ++k) least = std::min(least, bytes[(periods.first + k) % bytes.size()]);
  return least;
}

// Sizes around the blocks of one, two and three levels.
TEST(Room, IsWhatPeriodAfterPeriodComesTo) {
  for (const std::uint32_t n_moments : {1u, 2u, 15u, 16u, 17u, 100u, 255u, 256u, 257u, 1000u, 5000u}) {
    SCOPED_TRACE(std::to_string(n_moments) + " moments");
    std::mt19937_64 random(n_moments);
    BytesByPeriod naive = {std::vector<std::int64_t>(n_moments, 50), std::vector<std::int64_t>(n_moments, 80)};
    Room room(naive);
    BytesAdded added(n_moments);
    const BytesByPeriod before = naive;
    for (int i = 0; i < 300; ++i) {
      const Tier tier = kLimitedTiers[random() % 2];
      const Periods changed = random_periods(random, n_moments), seen = random_periods(random, n_moments);
      const auto n_bytes = static_cast<std::int64_t>(random() % 41) - 20;
      add_to(naive[index(tier)], changed, n_bytes);
      room.add(tier, changed, n_bytes);
      added.add(tier, changed, n_bytes);
      ASSERT_EQ(room.at(tier, seen.first), naive[index(tier)][seen.first]);
      if (seen.count == 0) continue;
      const std::int64_t least = least_of(naive[index(tier)], seen);
      ASSERT_TRUE(room.has(tier, seen, least));
      ASSERT_FALSE(room.has(tier, seen, least + 1));
    }
    EXPECT_EQ(added.onto(before), naive);
  }
}

TEST(Room, NoPeriodsHaveRoomForAnything) {
  const Room room({std::vector<std::int64_t>{1}, std::vector<std::int64_t>{1}});
  EXPECT_TRUE(room.has(Tier::device, {0, 0}, 1000));
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/states/slot_pages.h>

#include <gtest/gtest.h>

#include <castor/memory/bytes.h>

namespace castor {
namespace {

TEST(SlotPages, SmallSlotsLieElsewhereAndOthersTakeWholePages) {
  EXPECT_EQ(paged_bytes(5, 0), 5u) << "there are no pages";
  EXPECT_EQ(paged_bytes(kMiB, 2 * kMiB), kMiB) << "half a page";
  EXPECT_EQ(paged_bytes(kMiB + 1, 2 * kMiB), 2 * kMiB);
  EXPECT_EQ(paged_bytes(4 * kMiB, 2 * kMiB), 4 * kMiB);
  EXPECT_EQ(paged_bytes(4 * kMiB + 512, 2 * kMiB), 6 * kMiB);
}

TEST(SlotPages, PaddingIsThatOfWhicheverHaveMore) {
  // Weights: 3 MiB take 4 and 1 MiB is not padded, 1 of 4 more. States: 7 MiB take 8, 1 of 7 more.
  const SlotSizes slots = {{3 * kMiB, kMiB}, {7 * kMiB}};
  EXPECT_EQ(padding_bytes(slots, 2 * kMiB, 100 * kMiB), 25 * kMiB);
  const SlotSizes states_waste_more = {{7 * kMiB}, {3 * kMiB, 5 * kMiB}};
  EXPECT_EQ(padding_bytes(states_waste_more, 2 * kMiB, 100 * kMiB), 25 * kMiB);
  EXPECT_EQ(padding_bytes(slots, 0, 100 * kMiB), 0u);
  EXPECT_EQ(padding_bytes({}, 2 * kMiB, 100 * kMiB), 0u);
}

}  // namespace
}  // namespace castor

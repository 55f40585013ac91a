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

TEST(SlotPages, TheBestPageIsTheLargestThatPadsLittle) {
  const std::uint64_t grain = 2 * kMiB;
  EXPECT_EQ(best_page_bytes({{90 * kMiB}, {}}, grain), 30 * kMiB) << "32 would waste 6 of 90";
  EXPECT_EQ(best_page_bytes({{90 * kMiB}, {162 * kMiB}}, grain), 18 * kMiB) << "the largest that divides both";
  EXPECT_EQ(best_page_bytes({{1024 * kMiB}, {2048 * kMiB}}, grain), 32 * kMiB);
  EXPECT_EQ(best_page_bytes({{320 * kMiB, 8 * kMiB}, {640 * kMiB}}, grain), 10 * kMiB)
      << "330 for 328; the small slot would not lie in pages of 16, and 14 and 12 waste 8 of 328";
  EXPECT_EQ(best_page_bytes({{3 * kMiB}, {9 * kMiB}}, grain), 4 * kMiB) << "12 for 9 waste no more than 4 for 3";
  EXPECT_EQ(best_page_bytes({{kMiB}, {kMiB}}, grain), 32 * kMiB) << "none lies in pages";
  EXPECT_EQ(best_page_bytes({{64 * kMiB}, {}}, 64 * kMiB), 64 * kMiB) << "a grain that is larger than any page";
}

}  // namespace
}  // namespace castor

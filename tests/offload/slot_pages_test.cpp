// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/slot_pages.h>

#include <gtest/gtest.h>

#include <random>

namespace castor {
namespace {

TEST(SlotPages, SmallSlotsLieElsewhereAndOthersTakeWholePages) {
  EXPECT_EQ(paged_bytes(5, 0), 5u);
  EXPECT_EQ(paged_bytes(10 * kMiB, 20 * kMiB), 10 * kMiB) << "half a page";
  EXPECT_EQ(paged_bytes(10 * kMiB + 1, 20 * kMiB), 20 * kMiB);
  EXPECT_EQ(paged_bytes(40 * kMiB, 20 * kMiB), 40 * kMiB);
  EXPECT_EQ(paged_bytes(40 * kMiB + 512, 20 * kMiB), 60 * kMiB);
}

TEST(SlotPages, OfAGptAreItsChunks) {
  // 1600 wide: a third of a block, and its states.
  EXPECT_EQ(best_page_bytes({20'500'480, 102'502'400}), 20 * kMiB);
  // 4096 wide: products of 4096 by 4096, three and four of them; states in parts of 160 MiB.
  EXPECT_EQ(best_page_bytes({32 * kMiB, 96 * kMiB, 128 * kMiB, 160 * kMiB}), 32 * kMiB);
}

TEST(SlotPages, NoneWhereTheyWouldWasteMuchOrHoldLittle) {
  EXPECT_EQ(best_page_bytes({kMiB, 5 * kMiB}), 0u) << "all lie elsewhere";
  EXPECT_EQ(best_page_bytes({8 * kMiB, 8 * kMiB + 512}), 0u);
  EXPECT_EQ(page_bytes_for({32 * kMiB}, 20 * kMiB), 0u) << "a fourth would be padding";
  EXPECT_EQ(page_bytes_for({38 * kMiB}, 20 * kMiB), 20 * kMiB) << "a 19th";
  EXPECT_EQ(page_bytes_for({38 * kMiB}, 0), 0u);
}

TEST(SlotPages, NoOtherSizeWastesLess) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::uint64_t> slots(1 + random() % 4);
    for (auto& slot : slots) slot = (1 + random() % (1 << 12)) * 64 * kKiB;
    const std::uint64_t best = best_page_bytes(slots);
    if (best == 0) continue;
    EXPECT_EQ(best % kPageGrainBytes, 0u);
    const auto all = [&slots](std::uint64_t page) {
      std::uint64_t n_bytes = 0;
      for (const auto slot : slots) n_bytes += slot <= page / 2 ? slot : (slot + page - 1) / page * page;
      return n_bytes;
    };
    for (std::uint64_t page = 12 * kMiB; page <= 32 * kMiB; page += 2 * kMiB) EXPECT_LE(all(best), all(page)) << page;
    EXPECT_LE(all(best) - all(1), all(1) / 16);
  }
}

TEST(SlotPages, PaddingTakesItsShareOfTheRoom) {
  const std::vector<std::uint64_t> slots(3, 38 * kMiB);
  EXPECT_EQ(padding_bytes(slots, 20 * kMiB, 400 * kMiB), 20 * kMiB) << "ten slots with 2 MiB each";
  EXPECT_EQ(padding_bytes(slots, 0, 400 * kMiB), 0u);
  EXPECT_EQ(padding_bytes({40 * kMiB}, 20 * kMiB, 400 * kMiB), 0u);
}

TEST(SlotPages, SlotsAreWeightsAndPartsOfStates) {
  const ChunkLayout layout = plan_layout(
      std::vector<TensorSpec>{{256, DType::bf16, true}, {256, DType::f32, true}, {512, DType::bf16, false}}, {kMiB});
  EXPECT_EQ(slot_sizes(layout, {true}), (std::vector<std::uint64_t>{512, 2560, 1024, 3072, 1024}));
}

}  // namespace
}  // namespace castor

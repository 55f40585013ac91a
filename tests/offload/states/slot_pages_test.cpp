// SPDX-License-Identifier: Apache-2.0
#include <castor/states/slot_pages.h>

#include <gtest/gtest.h>

#include <random>

namespace castor {
namespace {

TEST(SlotPages, SmallSlotsLieElsewhereAndOthersTakeWholePages) {
  EXPECT_EQ(paged_bytes(5, {}), 5u);
  EXPECT_EQ(paged_bytes(10 * kMiB, {20 * kMiB}), 10 * kMiB) << "half a page";
  EXPECT_EQ(paged_bytes(10 * kMiB + 1, {20 * kMiB}), 20 * kMiB);
  EXPECT_EQ(paged_bytes(40 * kMiB, {20 * kMiB}), 40 * kMiB);
  EXPECT_EQ(paged_bytes(40 * kMiB + 512, {20 * kMiB}), 60 * kMiB);
  EXPECT_EQ(paged_bytes(40 * kMiB + 512, {20 * kMiB, 14 * kMiB}), 42 * kMiB) << "whichever suits it";
}

TEST(SlotPages, OfAGptAreItsChunks) {
  // 1600 wide: thirds of blocks and their states, a table of 50304 words and parts of its states.
  EXPECT_EQ(best_pages({{20'500'480, 20'500'480, 20'500'480}, {102'502'400}}), SlotPages{20 * kMiB});
  const SlotPages with_table = best_pages({{160'972'800, 20'500'480, 20'500'480}, {114'982'400, 102'502'400}});
  EXPECT_EQ(with_table, (SlotPages{22 * kMiB, 20 * kMiB}));
  EXPECT_EQ(paged_bytes(160'972'800, with_table), 154 * kMiB);
  EXPECT_EQ(paged_bytes(114'982'400, with_table), 110 * kMiB);
  // 4096 wide: matrices of 4096 by 4096, three and four of them; states in parts of 40 MiB. Nothing is lost.
  const SlotSizes wide = {{32 * kMiB, 96 * kMiB, 128 * kMiB}, {40 * kMiB}};
  EXPECT_EQ(padding_bytes(wide, best_pages(wide), kGiB), 0u);
}

TEST(SlotPages, NoneWhereTheyWouldWasteMuchOrHoldLittle) {
  EXPECT_EQ(best_pages({{kMiB, 5 * kMiB}, {}}), SlotPages{}) << "all lie elsewhere";
  EXPECT_EQ(best_pages({{8 * kMiB}, {8 * kMiB}}), SlotPages{}) << "a third would be padding";
  EXPECT_EQ(best_pages({}), SlotPages{});
}

/// The share of padding in a room full of `slots`, counted in whole pages.
double lost(const std::vector<std::uint64_t>& slots, const SlotPages& pages) {
  double wanted = 0, taken = 0;
  for (const std::uint64_t slot : slots) {
    std::uint64_t least = ~std::uint64_t{0};
    for (const std::uint64_t page : pages)
      if (2 * slot > page) least = std::min(least, (slot + page - 1) / page * page);
    wanted += static_cast<double>(slot);
    taken += static_cast<double>(least == ~std::uint64_t{0} ? slot : least);
  }
  return taken == 0 ? 0 : (taken - wanted) / taken;
}

TEST(SlotPages, NoOtherPairWastesLess) {
  std::mt19937_64 random(7);
  const auto draw = [&random](std::vector<std::uint64_t>& slots) {
    slots.resize(1 + random() % 3);
    for (auto& slot : slots) slot = (256 + random() % (1 << 12)) * 64 * kKiB;  // from 16 MiB on
  };
  int n_found = 0;
  for (int round = 0; round < 100; ++round) {
    SlotSizes slots;
    draw(slots.weights);
    draw(slots.states);
    const SlotPages best = best_pages(slots);
    const auto worse = [&slots](const SlotPages& pages) {
      return std::max(lost(slots.weights, pages), lost(slots.states, pages));
    };
    const double least = best.empty() ? 1.0 / 16 : worse(best);
    EXPECT_LE(least, 1.0 / 16);
    n_found += best.empty() ? 0 : 1;
    for (std::uint64_t a = 12; a <= 32; a += 2)
      for (std::uint64_t b = 12; b <= a; b += 2) EXPECT_LE(least, worse({a * kMiB, b * kMiB}) + 1e-12) << a << ' ' << b;
    EXPECT_NEAR(static_cast<double>(padding_bytes(slots, best, kGiB)), best.empty() ? 0 : least * kGiB, 2);
  }
  EXPECT_GT(n_found, 50);
}

TEST(SlotPages, SlotsAreWeightsAndPartsOfStates) {
  const ChunkLayout layout = plan_layout(
      std::vector<TensorSpec>{{256, DType::bf16, true}, {256, DType::f32, true}, {512, DType::bf16, false}}, {kMiB});
  const SlotSizes slots = slot_sizes(layout, {true});
  EXPECT_EQ(slots.weights, (std::vector<std::uint64_t>{512, 1024, 1024}));
  EXPECT_EQ(slots.states, (std::vector<std::uint64_t>{2560, 3072}));
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include <castor/memory/bytes.h>
#include <castor/memory/result.h>

#include "stripe_units.h"
#include "stripes/stripe_layout.h"

namespace castor::test {
namespace {

std::vector<std::size_t> deal_all(const std::vector<std::uint64_t>& counts) {
  UnitDealer dealer(counts);
  std::vector<std::size_t> dealt;
  for (auto left = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}); left > 0; --left)
    dealt.push_back(dealer.next());
  EXPECT_THROW(dealer.next(), ContractViolation);
  return dealt;
}

using Dealt = std::vector<std::size_t>;

TEST(UnitDealer, InterleavesEvenly) {
  EXPECT_EQ(deal_all({4, 4}), (Dealt{0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(deal_all({6, 2}), (Dealt{0, 0, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(deal_all({0, 3, 0}), (Dealt{1, 1, 1}));
  EXPECT_EQ(deal_all({2, 2, 2}), (Dealt{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(deal_all({1, 0, 0, 1}), (Dealt{0, 3}));
}

TEST(UnitDealer, RefusesWhatCannotBe) {
  EXPECT_THROW(UnitDealer(std::vector<std::uint64_t>{0, 0}), ContractViolation);
  EXPECT_THROW(UnitDealer(std::vector<std::uint64_t>(65, 1)), ContractViolation);
  EXPECT_THROW(UnitDealer(std::vector<std::uint64_t>{~0ull, ~0ull}), ContractViolation);
}

TEST(UnitDealer, EveryBeginningIsInProportion) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::uint64_t> counts(1 + random() % (round % 10 == 0 ? 64 : 6));
    for (auto& count : counts) count = random() % (random() % 3 == 0 ? 200 : 8);
    counts[random() % counts.size()] += 1;
    const auto n = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    std::vector<std::uint64_t> dealt(counts.size());
    UnitDealer dealer(counts);
    for (std::uint64_t k = 1; k <= n; ++k) {
      ++dealt[dealer.next()];
      for (std::size_t v = 0; v < counts.size(); ++v) {  // |dealt − k·count/n| < 1, in whole numbers
        ASSERT_LT(dealt[v] * n, k * counts[v] + n);
        ASSERT_GT(dealt[v] * n + n, k * counts[v]);
      }
    }
    ASSERT_EQ(dealt, counts);
  }
}

TEST(StripeLayout, RoundsAValueUpToPagesAndOneAtLeast) {
  EXPECT_EQ(value_room_bytes(0), kPage);
  EXPECT_EQ(value_room_bytes(1), kPage);
  EXPECT_EQ(value_room_bytes(kPage + 1), 2 * kPage);
  EXPECT_EQ(n_value_units(0, kMiB), 1u);
  EXPECT_EQ(n_value_units(kMiB, kMiB), 1u);
  EXPECT_EQ(n_value_units(kMiB + 1, kMiB), 2u);
  EXPECT_THROW(n_value_units(1, 4095), ContractViolation);
  EXPECT_THROW(n_value_units(1, 0), ContractViolation);
}

TEST(StripeLayout, TheLastUnitIsWholePagesAndATail) {
  // 10 pages and 100 bytes in blocks of 4 pages over two volumes: units of 4, 4, and 3 pages of which the last is a
  // tail
  const auto n_bytes = 10 * kPage + 100;
  auto placement = plan_extents(std::vector<std::uint64_t>{2, 1}, n_bytes, 4 * kPage);
  ASSERT_EQ(placement.extents.size(), 2u);
  // Dealt 0 0 1: volume 1 has the short unit.
  EXPECT_EQ(placement.extents[0].n_bytes, 8 * kPage);
  EXPECT_EQ(placement.extents[1].n_bytes, 3 * kPage);
  placement.extents[0].offset_bytes = 100 * kPage;
  placement.extents[1].offset_bytes = 50 * kPage;
  EXPECT_TRUE(holds_value(placement, n_bytes, 4 * kPage));
  std::vector<ValueBlock> blocks;
  deal_blocks(placement, n_bytes, 4 * kPage, blocks);
  const std::vector<std::vector<std::uint64_t>> expected = {{0, 4 * kPage, 0, 100 * kPage},
                                                            {4 * kPage, 4 * kPage, 0, 104 * kPage},
                                                            {8 * kPage, 2 * kPage, 1, 50 * kPage},
                                                            {10 * kPage, 100, 1, 52 * kPage}};
  ASSERT_EQ(blocks.size(), expected.size());
  for (std::size_t i = 0; i < blocks.size(); ++i)
    EXPECT_EQ((std::vector<std::uint64_t>{blocks[i].offset_bytes, blocks[i].n_bytes, blocks[i].volume,
                                          blocks[i].file_offset_bytes}),
              expected[i]);
}

TEST(StripeLayout, AValueOfNoBytesHasAPageAndNoBlocks) {
  const auto placement = plan_extents(std::vector<std::uint64_t>{0, 1}, 0, kMiB);
  EXPECT_EQ(placement.extents[0].n_bytes, 0u);
  EXPECT_EQ(placement.extents[1].n_bytes, kPage);
  EXPECT_TRUE(holds_value(placement, 0, kMiB));
  std::vector<ValueBlock> blocks(3);
  deal_blocks(placement, 0, kMiB, blocks);
  EXPECT_TRUE(blocks.empty());
}

TEST(StripeLayout, DealingAgainAllocatesNothing) {
  const auto placement = plan_extents(std::vector<std::uint64_t>{5, 5}, 10 * kMiB, kMiB);
  std::vector<ValueBlock> blocks;
  deal_blocks(placement, 10 * kMiB, kMiB, blocks);
  const auto* const data = blocks.data();
  const auto capacity = blocks.capacity();
  deal_blocks(placement, 10 * kMiB, kMiB, blocks);
  EXPECT_EQ(blocks.data(), data);
  EXPECT_EQ(blocks.capacity(), capacity);
}

/// A placed value of random size, blocks and volumes.
struct RandomValue {
  explicit RandomValue(std::mt19937& random)
      : block_bytes((1 + random() % 8) * kPage), n_bytes(random() % (40 * block_bytes)) {
    if (random() % 3 == 0) n_bytes -= n_bytes % (random() % 2 == 0 ? kPage : block_bytes);
    counts.resize(1 + random() % 5);
    for (auto left = n_value_units(n_bytes, block_bytes); left > 0; --left) ++counts[random() % counts.size()];
    placement = plan_extents(counts, n_bytes, block_bytes);
    for (auto& extent : placement.extents) extent.offset_bytes = random() % 1000 * kPage;
  }
  std::uint64_t block_bytes;
  std::uint64_t n_bytes;
  std::vector<std::uint64_t> counts;
  Placement placement;
};

/// Checks a dealt value page by page.
void check_blocks(const RandomValue& value, const std::vector<ValueBlock>& blocks) {
  std::uint64_t at = 0;
  std::vector<std::vector<bool>> page_taken;
  for (const auto& extent : value.placement.extents) page_taken.emplace_back(extent.n_bytes / kPage, false);
  for (const auto& block : blocks) {
    ASSERT_EQ(block.offset_bytes, at);  // every byte once, in order
    ASSERT_GT(block.n_bytes, 0u);
    ASSERT_LE(block.n_bytes, value.block_bytes);
    at += block.n_bytes;
    ASSERT_TRUE(block.n_bytes % kPage == 0 || (block.n_bytes < kPage && at == value.n_bytes));
    ASSERT_EQ(block.file_offset_bytes % kPage, 0u);
    const auto& extent = value.placement.extents[block.volume];
    ASSERT_GE(block.file_offset_bytes, extent.offset_bytes);
    ASSERT_LE(block.file_offset_bytes + block.n_bytes, extent.offset_bytes + extent.n_bytes);
    for (std::uint64_t byte = 0; byte < block.n_bytes; byte += kPage) {
      const auto page = (block.file_offset_bytes - extent.offset_bytes + byte) / kPage;
      ASSERT_FALSE(page_taken[block.volume][page]);
      page_taken[block.volume][page] = true;
    }
  }
  ASSERT_EQ(at, value.n_bytes);
  if (value.n_bytes == 0) return;
  for (const auto& pages : page_taken) ASSERT_EQ(std::count(pages.begin(), pages.end(), false), 0);
}

TEST(StripeLayout, EveryByteLiesInOnePlaceOfItsOwn) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::vector<ValueBlock> blocks;
  for (int round = 0; round < 2000; ++round) {
    const RandomValue value(random);
    ASSERT_TRUE(holds_value(value.placement, value.n_bytes, value.block_bytes));
    deal_blocks(value.placement, value.n_bytes, value.block_bytes, blocks);
    check_blocks(value, blocks);
    ASSERT_FALSE(::testing::Test::HasFatalFailure());
    for (const ValueBlock& block : blocks)
      ASSERT_EQ(value_block_end(block.offset_bytes, value.n_bytes, value.block_bytes),
                block.offset_bytes + block.n_bytes);
  }
}

TEST(StripeLayout, ForgedPlacementsAreToldFromTrueOnes) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::vector<ValueBlock> blocks;
  for (int round = 0; round < 2000; ++round) {
    RandomValue value(random);
    if (value.n_bytes == 0) continue;
    const auto forge = [&] {
      auto& extent = value.placement.extents[random() % value.placement.extents.size()];
      auto& number = random() % 3 == 0 ? extent.offset_bytes : extent.n_bytes;
      const std::uint64_t by[] = {kPage, ~kPage + 1, 1, 1ull << 63, value.block_bytes};
      number += by[random() % 5];
    };
    forge();
    if (random() % 2 == 0) forge();
    const bool holds = holds_value(value.placement, value.n_bytes, value.block_bytes);
    if (!holds) {
      ASSERT_THROW(deal_blocks(value.placement, value.n_bytes, value.block_bytes, blocks), ContractViolation);
    } else {
      deal_blocks(value.placement, value.n_bytes, value.block_bytes, blocks);
      check_blocks(value, blocks);
      ASSERT_FALSE(::testing::Test::HasFatalFailure());
    }
  }
  EXPECT_FALSE(holds_value({}, 1, kPage));
  EXPECT_FALSE(holds_value({{{0, kPage}}}, ~0ull, kPage));
  EXPECT_FALSE(holds_value({std::vector<Extent>(65, {0, kPage})}, 65 * kPage, kPage));
}

using Counts = std::vector<std::uint64_t>;

Counts share(std::uint64_t n_units, const std::vector<double>& wanted, const Counts& most) {
  Counts counts(wanted.size());
  return share_units(n_units, wanted, most, counts) ? counts : Counts{};
}

TEST(ShareUnits, IsInProportionAndRoundsToTheLargestFractions) {
  const Counts many = {1000, 1000, 1000};
  EXPECT_EQ(share(10, {5, 3, 2}, many), (Counts{5, 3, 2}));
  EXPECT_EQ(share(10, {1, 1, 1}, many), (Counts{4, 3, 3}));
  EXPECT_EQ(share(1, {0.2, 0.5, 0.3}, many), (Counts{0, 1, 0}));
  EXPECT_EQ(share(4, {-7, 3, 1}, many), (Counts{0, 3, 1}));
  EXPECT_EQ(share(3, {0, -1, 0}, many), (Counts{1, 1, 1}));
}

TEST(ShareUnits, WhatAFullVolumeCannotTakeGoesToTheOthers) {
  EXPECT_EQ(share(10, {8, 1, 1}, {2, 100, 100}), (Counts{2, 4, 4}));
  EXPECT_EQ(share(10, {1, 0, 0}, {3, 5, 2}), (Counts{3, 5, 2}));
  EXPECT_EQ(share(1, {1, 0}, {0, 1}), (Counts{0, 1}));
  EXPECT_EQ(share(11, {1, 1, 1}, {3, 5, 2}), Counts{});
}

TEST(ShareUnits, KeepsEveryBound) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 5000; ++round) {
    const std::size_t n_volumes = 1 + random() % 6;
    const std::uint64_t n_units = 1 + random() % 100;
    std::vector<double> wanted(n_volumes);
    Counts most(n_volumes), counts(n_volumes);
    for (auto& w : wanted) w = static_cast<double>(random() % 100) - 20;
    for (auto& m : most) m = random() % 2 == 0 ? ~0ull : random() % 50;
    std::uint64_t possible = 0;
    for (const auto m : most) possible += std::min<std::uint64_t>(m, 1000);
    ASSERT_EQ(share_units(n_units, wanted, most, counts), possible >= n_units);
    if (possible < n_units) continue;
    ASSERT_EQ(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}), n_units);
    double total = 0;
    for (const double w : wanted) total += std::max(w, 0.0);
    for (std::size_t v = 0; v < n_volumes; ++v) {
      ASSERT_LE(counts[v], most[v]);
      const double due = total > 0 ? std::max(wanted[v], 0.0) / total * static_cast<double>(n_units) : 0;
      ASSERT_GT(static_cast<double>(counts[v]) + 1 + 1e-9, std::min(due, static_cast<double>(most[v])));
    }
  }
}

}  // namespace
}  // namespace castor::test

// SPDX-License-Identifier: Apache-2.0
#include "cache_growth.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "expandable_cache.h"

namespace castor {
namespace {

constexpr std::uint64_t kSegment = 20 * kMiB;

/// A training step of a language model with a large vocabulary: the blocks of more than 1 MiB that torch 2.11 was seen to
/// take for Qwen2.5-1.5B (28 blocks, 4 samples of 2048 tokens, recompute, blocks compiled). Gradients are let go with
/// their block, or, by chance, up to `most_late` - 1 blocks later.
class LossHead {
 public:
  explicit LossHead(ExpandableCache& cache, int most_late = 1, std::uint64_t seed = 0)
      : cache_(cache), most_late_(most_late), random_(seed) {}

  /// How often the cache was given back in it.
  std::int64_t step() {
    const std::int64_t before = cache_.figures().n_retries;
    let_go(head_gradient_);
    std::vector<void*> kept = {take(24)};
    for (int block = 0; block < 28; ++block) {
      const auto inner = take_all({24, 24, 4, 4, 24, 4, 24, 24, 140, 140, 140});
      kept.push_back(take(24));
      let_go(inner);
      let_go_of_late();
    }
    void* const of_head = loss();
    for (; kept.size() > 1; kept.pop_back()) {
      const auto again = take_all({24, 24, 4, 4, 24, 4, 24, 24, 140, 140, 140});
      const auto gradients = take_all({27, 140, 140, 27, 27});
      let_go(again);
      for (void* block : gradients) let_go_later(block);
      let_go(kept.back());
      let_go_of_late();
    }
    let_go(kept.front());
    void* const of_embedding = take(445);
    head_gradient_ = take(445);
    let_go_later(of_head);
    let_go_later(of_embedding);
    return cache_.figures().n_retries - before;
  }

 private:
  static constexpr std::uint64_t kLogits = 2374;

  void* loss() {
    void* const hidden = take(24);
    void* const logits = take(kLogits);
    void* const in_fp32 = take(2 * kLogits);
    void* const normalised = take(2 * kLogits);
    let_go(in_fp32);
    let_go(logits);
    void* const of_loss = take(2 * kLogits);
    void* const of_normalised = take(2 * kLogits);
    let_go(of_loss);
    let_go(normalised);
    void* const of_logits = take(kLogits);
    let_go(of_normalised);
    void* const of_head = take(445);
    let_go(of_logits);
    let_go(hidden);
    return of_head;
  }

  void* take(std::uint64_t n_mib) {
    void* const block = cache_.allocate(n_mib * kMiB);
    EXPECT_NE(block, nullptr) << n_mib << " MiB";
    return block;
  }
  std::vector<void*> take_all(std::initializer_list<std::uint64_t> in_mib) {
    std::vector<void*> blocks;
    for (const std::uint64_t n_mib : in_mib) blocks.push_back(take(n_mib));
    return blocks;
  }
  void let_go(void* block) {
    if (block != nullptr) cache_.deallocate(block);
  }
  void let_go(const std::vector<void*>& blocks) {
    for (void* block : blocks) let_go(block);
  }

  void let_go_later(void* block) {
    const int n_blocks = static_cast<int>(random_() % static_cast<std::uint64_t>(most_late_));
    if (n_blocks == 0) return let_go(block);
    late_.emplace_back(n_blocks, block);
  }
  void let_go_of_late() {
    for (auto& [n_blocks, block] : late_)
      if (--n_blocks == 0) let_go(block);
    std::erase_if(late_, [](const auto& late) { return late.first == 0; });
  }

  ExpandableCache& cache_;
  const int most_late_;
  std::mt19937_64 random_;
  std::vector<std::pair<int, void*>> late_;  // how many blocks later
  void* head_gradient_ = nullptr;
};

constexpr std::uint64_t kLimit = 16026 * kMiB;

TEST(CacheGrowth, WithoutItTheLossGivesBackTheCacheInEachStep) {
  ExpandableCache cache(kLimit);
  LossHead model(cache);
  for (int step = 0; step < 12; ++step) EXPECT_EQ(model.step(), 1) << "step " << step;
  EXPECT_LT(cache.most_reserved_bytes() + 500 * kMiB, kLimit) << "there was memory left";
}

TEST(CacheGrowth, AfterOneSuchStepTheLossFindsABlock) {
  ExpandableCache cache(kLimit);
  CacheGrowth growth;
  cache.grow_with(&growth);
  LossHead model(cache);
  EXPECT_EQ(model.step(), 1);
  for (int step = 0; step < 12; ++step) EXPECT_EQ(model.step(), 0) << "step " << step;
  EXPECT_LE(cache.most_reserved_bytes(), kLimit);
}

TEST(CacheGrowth, FindsBlocksInLongTrainingsWhoseGradientsAreLetGoNowAndThen) {
  std::int64_t n_retries = 0, n_without = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    ExpandableCache cache(kLimit), other(kLimit);
    CacheGrowth growth;
    cache.grow_with(&growth);
    LossHead model(cache, 5, seed), without(other, 5, seed);
    for (int step = 0; step < 60; ++step) {
      const std::int64_t n = model.step(), n_other = without.step();
      if (step >= 40) n_retries += n, n_without += n_other;
    }
  }
  EXPECT_EQ(n_without, 200) << "in each step";
  EXPECT_LE(n_retries, 40);
}

/// They have segments of their own, for which growth leaves what it spares.
TEST(CacheGrowth, SmallBlocksFindMemoryBesideIt) {
  for (const std::uint64_t n_mib : {20, 60, 100}) {
    SCOPED_TRACE(std::to_string(n_mib) + " MiB of small blocks");
    ExpandableCache cache(kLimit);
    CacheGrowth growth;
    cache.grow_with(&growth);
    LossHead model(cache);
    std::int64_t n_late = 0;
    for (int step = 0; step < 20; ++step) {
      const std::int64_t before = cache.figures().n_retries;
      EXPECT_TRUE(cache.allocate_small(n_mib * kMiB));
      cache.deallocate_small(n_mib * kMiB);
      model.step();
      if (step >= 5) n_late += cache.figures().n_retries - before;
    }
    EXPECT_EQ(n_late, 0);
    EXPECT_LE(cache.most_reserved_bytes(), kLimit);
  }
}

TEST(CacheGrowth, GivesBackTheCacheNoMoreOftenWhereTheMemoryDoesNotDo) {
  ExpandableCache cache(15300 * kMiB);
  CacheGrowth growth;
  cache.grow_with(&growth);
  LossHead model(cache);
  for (int step = 0; step < 12; ++step) EXPECT_EQ(model.step(), 1) << "step " << step;
  EXPECT_LE(cache.most_reserved_bytes(), 15300 * kMiB);
}

TEST(CacheGrowth, LeavesADeviceAloneThatOthersFill) {
  ExpandableCache cache(kLimit);
  cache.set_device_free(100 * kMiB);
  CacheGrowth growth;
  cache.grow_with(&growth);
  LossHead model(cache);
  for (int step = 0; step < 4; ++step) EXPECT_EQ(model.step(), 1) << "step " << step;
}

TEST(CacheGrowth, LeavesTheLimitAsItWas) {
  ExpandableCache cache(kLimit);
  CacheGrowth growth;
  cache.grow_with(&growth);
  LossHead model(cache);
  for (int step = 0; step < 4; ++step) model.step();
  EXPECT_EQ(cache.figures().allowed_bytes, kLimit);
}

TEST(CacheGrowth, ANewLimitBeginsAnew) {
  ExpandableCache cache(15300 * kMiB);
  CacheGrowth growth;
  cache.grow_with(&growth);
  LossHead model(cache);
  for (int step = 0; step < 12; ++step) model.step();
  cache.allow(kLimit);
  for (int step = 0; step < 6; ++step) model.step();
  for (int step = 6; step < 12; ++step) EXPECT_EQ(model.step(), 0) << "step " << step;
}

/// Blocks of random sizes around a limit that is often met: it is never exceeded, and what is allocated stays apart.
TEST(CacheGrowth, NeverExceedsTheLimit) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    ExpandableCache cache((1 + random() % 8) * 1000 * kMiB);
    CacheGrowth growth;
    cache.grow_with(&growth);
    std::map<std::uint64_t, std::uint64_t> live;  // end by begin
    for (int call = 0; call < 600; ++call) {
      if (!live.empty() && random() % 2 == 0) {
        const auto any = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
        cache.deallocate(reinterpret_cast<void*>(any->first));
        live.erase(any);
        continue;
      }
      const std::uint64_t n_bytes = (2 + random() % (random() % 8 == 0 ? 1500 : 60)) * kMiB;
      const auto begin = reinterpret_cast<std::uint64_t>(cache.allocate(n_bytes));
      ASSERT_LE(cache.figures().reserved_bytes, cache.figures().allowed_bytes);
      if (begin == 0) continue;
      const auto after = live.lower_bound(begin);
      ASSERT_TRUE(after == live.end() || after->first >= begin + n_bytes);
      ASSERT_TRUE(after == live.begin() || std::prev(after)->second <= begin);
      live.emplace(begin, begin + n_bytes);
    }
    ASSERT_LE(cache.most_reserved_bytes(), cache.figures().allowed_bytes);
  }
}

// Stretches from address 0: 400 MiB with 100 free at the end, a gap of 200, 400 with 60 free at the beginning and 300 at
// the end, and no end of addresses.
std::vector<MappedStretch> two_stretches() {
  return {{0, 400 * kMiB, 0, 100 * kMiB}, {600 * kMiB, 1000 * kMiB, 60 * kMiB, 300 * kMiB}};
}

TEST(PlanGrowth, LengthensTheBlockThatBecomesTheLargest) {
  EXPECT_EQ(plan_growth(two_stretches(), 150 * kMiB, 300 * kMiB), 440 * kMiB) << "300 and seven segments of 20";
}

TEST(PlanGrowth, ClosesAGapWhereThatJoinsMore) {
  auto stretches = two_stretches();
  stretches[1].free_at_begin_bytes = 350 * kMiB;
  stretches[1].free_at_end_bytes = 0;
  EXPECT_EQ(plan_growth(stretches, 200 * kMiB, 350 * kMiB), 300 * kMiB) << "100 and the gap; then there are 650";
}

TEST(PlanGrowth, ProposesNoGapThatAnEarlierOnePrecedes) {
  auto stretches = two_stretches();
  stretches[0].free_at_end_bytes = 390 * kMiB;  // with the gap and 60 there is room for 650
  EXPECT_EQ(plan_growth(stretches, 40 * kMiB, 390 * kMiB), 430 * kMiB);
  stretches[0].free_at_end_bytes = 200 * kMiB;  // room for 460, where 340 would go
  EXPECT_EQ(plan_growth(stretches, 40 * kMiB, 300 * kMiB), 0u);
}

TEST(PlanGrowth, NeedsASegmentBelowTheLimit) {
  EXPECT_EQ(plan_growth(two_stretches(), kSegment - 1, 300 * kMiB), 0u);
  EXPECT_EQ(plan_growth({}, kSegment, 0), 0u);
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/io/extent_allocator.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace castor {
namespace {

constexpr std::uint64_t kGrain = 4096;

Extent take(ExtentAllocator& extents, std::uint64_t n_grains) { return extents.allocate(n_grains * kGrain).value(); }

TEST(ExtentAllocator, RoundsUpToWholeGrains) {
  ExtentAllocator extents;
  EXPECT_EQ(extents.allocate(1)->n_bytes, 4096u);
  const auto second = extents.allocate(4097).value();
  EXPECT_EQ(second.offset_bytes, 4096u);
  EXPECT_EQ(second.n_bytes, 8192u);
  EXPECT_EQ(extents.allocated_bytes(), 12288u);
}

TEST(ExtentAllocator, TakesTheSmallestGapThatFits) {
  ExtentAllocator extents;
  const auto large = take(extents, 4);
  take(extents, 1);
  const auto small = take(extents, 2);
  take(extents, 1);
  extents.free(large);
  extents.free(small);
  EXPECT_EQ(take(extents, 2).offset_bytes, 5 * kGrain);  // the gap of 2, not the one of 4 at 0
  EXPECT_EQ(take(extents, 3).offset_bytes, 0u);
  EXPECT_EQ(extents.n_gaps(), 1u);  // one grain at 3 is left
}

TEST(ExtentAllocator, FreedNeighboursMerge) {
  ExtentAllocator extents;
  const auto a = take(extents, 1), b = take(extents, 1), c = take(extents, 1);
  take(extents, 1);
  extents.free(a);
  extents.free(c);
  EXPECT_EQ(extents.n_gaps(), 2u);
  extents.free(b);  // between two gaps: all three become one
  EXPECT_EQ(extents.n_gaps(), 1u);
  EXPECT_EQ(take(extents, 3).offset_bytes, 0u);
}

TEST(ExtentAllocator, TheLastExtentFreedBesideAGapLeavesNothing) {
  ExtentAllocator extents;
  const auto a = take(extents, 1), b = take(extents, 1);
  extents.free(a);
  extents.free(b);
  EXPECT_EQ(extents.end_bytes(), 0u);
  EXPECT_EQ(extents.n_gaps(), 0u);
  EXPECT_EQ(extents.allocated_bytes(), 0u);
}

TEST(ExtentAllocator, SaysWhatIsFreeWhereTheLimitIsReached) {
  ExtentAllocator extents(10 * kGrain + 100);  // the last 100 bytes make no grain
  const auto a = take(extents, 4);
  take(extents, 4);
  extents.free(a);
  EXPECT_EQ(take(extents, 2).offset_bytes, 0u);
  const auto refused = extents.allocate(3 * kGrain);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  EXPECT_EQ(refused.error().message,
            "an extent of 12.0 KiB was asked for, the largest free one has 8.00 KiB of a file of at most 40.0 KiB");
  EXPECT_EQ(extents.allocated_bytes(), 6 * kGrain);
  EXPECT_TRUE(extents.allocate(2 * kGrain).ok());
}

TEST(ExtentAllocator, AbsurdSizesAreRefused) {
  ExtentAllocator extents;
  EXPECT_FALSE(extents.allocate(~0ull).ok());
  EXPECT_THROW((void)extents.allocate(0), ContractViolation);
}

TEST(ExtentAllocator, FreeingTwiceIsABrokenContract) {
  ExtentAllocator extents;
  const auto a = take(extents, 2), b = take(extents, 2);
  take(extents, 1);
  extents.free(a);
  EXPECT_THROW(extents.free(a), ContractViolation);
  EXPECT_THROW(extents.free({kGrain, 2 * kGrain}), ContractViolation);  // half free
  EXPECT_THROW(extents.free({5 * kGrain, kGrain}), ContractViolation);  // beyond the end
  EXPECT_THROW(extents.free({2 * kGrain + 1, kGrain}), ContractViolation);
  EXPECT_NO_THROW(extents.free(b));
}

TEST(ExtentAllocator, ClaimsExactlyTheseBytes) {
  ExtentAllocator extents;
  ASSERT_TRUE(extents.claim({4 * kGrain, 2 * kGrain}).ok());  // beyond the end: 0 to 3 become a gap
  EXPECT_EQ(extents.end_bytes(), 6 * kGrain);
  EXPECT_EQ(extents.allocated_bytes(), 2 * kGrain);
  ASSERT_TRUE(extents.claim({kGrain, kGrain}).ok());  // inside the gap: one grain at 0 and two at 2 are left
  const auto gaps = extents.gaps();
  ASSERT_EQ(gaps.size(), 2u);
  EXPECT_EQ(gaps[0].offset_bytes, 0u);
  EXPECT_EQ(gaps[0].n_bytes, kGrain);
  EXPECT_EQ(gaps[1].offset_bytes, 2 * kGrain);
  EXPECT_EQ(gaps[1].n_bytes, 2 * kGrain);
  EXPECT_EQ(take(extents, 2).offset_bytes, 2 * kGrain);
  EXPECT_EQ(take(extents, 1).offset_bytes, 0u);
  EXPECT_EQ(take(extents, 1).offset_bytes, 6 * kGrain);
}

TEST(ExtentAllocator, WhatIsTakenOrCannotBeIsNotClaimed) {
  ExtentAllocator extents(8 * kGrain);
  ASSERT_TRUE(extents.claim({2 * kGrain, 2 * kGrain}).ok());
  const auto refused = extents.claim({3 * kGrain, kGrain});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
  EXPECT_EQ(refused.error().message, "4096 bytes at offset 12288 are claimed, some of which are taken already");
  EXPECT_FALSE(extents.claim({3 * kGrain, 3 * kGrain}).ok());  // over the end
  EXPECT_FALSE(extents.claim({0, 3 * kGrain}).ok());           // from a gap into it
  EXPECT_EQ(extents.claim({7 * kGrain, 2 * kGrain}).error().message,
            "8192 bytes at offset 28672 are claimed of a file of at most 32768");
  EXPECT_EQ(extents.claim({4 * kGrain, 100}).error().message,
            "100 bytes at offset 16384 are claimed, which are no whole blocks of 4.00 KiB");
  EXPECT_FALSE(extents.claim({100, kGrain}).ok());
  EXPECT_FALSE(extents.claim({0, 0}).ok());
  EXPECT_FALSE(extents.claim({~0ull - kGrain + 1, kGrain}).ok());
  EXPECT_EQ(extents.allocated_bytes(), 2 * kGrain);
  EXPECT_EQ(extents.n_gaps(), 1u);
}

/// A model of the same contract, with one flag per grain.
class NaiveModel {
 public:
  explicit NaiveModel(std::size_t n_grains) : taken_(n_grains, false) {}

  bool all_are(const Extent& extent, bool taken) const {
    for (auto i = extent.offset_bytes / kGrain; i < (extent.offset_bytes + extent.n_bytes) / kGrain; ++i)
      if (taken_[i] != taken) return false;
    return true;
  }
  void set(const Extent& extent, bool taken) {
    for (auto i = extent.offset_bytes / kGrain; i < (extent.offset_bytes + extent.n_bytes) / kGrain; ++i)
      taken_[i] = taken;
  }
  std::uint64_t largest_free() const {
    std::uint64_t largest = 0, run = 0;
    for (const bool taken : taken_) largest = std::max(largest, run = taken ? 0 : run + 1);
    return largest;
  }
  /// The free runs before the last taken grain.
  std::uint64_t n_gaps() const {
    std::uint64_t n_gaps = 0;
    for (std::size_t i = 0; i + 1 < taken_.size(); ++i)
      if (!taken_[i] && taken_[i + 1]) ++n_gaps;
    return n_gaps;
  }
  std::uint64_t n_taken() const { return static_cast<std::uint64_t>(std::count(taken_.begin(), taken_.end(), true)); }

 private:
  std::vector<bool> taken_;
};

/// The allocator beside its model, and the extents held.
struct Pair {
  static constexpr std::uint64_t kNGrains = 200;
  ExtentAllocator extents{kNGrains * kGrain};
  NaiveModel model{kNGrains};
  std::vector<Extent> held;

  void hold(const Extent& extent) {
    ASSERT_TRUE(model.all_are(extent, false));
    model.set(extent, true);
    held.push_back(extent);
  }
  void allocate(std::uint64_t n_bytes) {
    const auto got = extents.allocate(n_bytes);
    ASSERT_EQ(got.ok(), (n_bytes + kGrain - 1) / kGrain <= model.largest_free());
    if (!got.ok()) return;
    ASSERT_EQ(got->n_bytes, (n_bytes + kGrain - 1) / kGrain * kGrain);
    ASSERT_LE(got->offset_bytes + got->n_bytes, kNGrains * kGrain);
    hold(*got);
  }
  void claim(const Extent& extent) {
    const bool free = extent.offset_bytes + extent.n_bytes <= kNGrains * kGrain && model.all_are(extent, false);
    ASSERT_EQ(extents.claim(extent).ok(), free);
    if (free) hold(extent);
  }
  void free(std::size_t index) {
    std::swap(held[index], held.back());
    extents.free(held.back());
    model.set(held.back(), false);
    held.pop_back();
  }
};

TEST(ExtentAllocator, AgreesWithANaiveModel) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  Pair pair;
  for (int step = 0; step < 20000; ++step) {
    const auto die = random() % 4;
    if (pair.held.empty() || die == 0)
      pair.allocate(1 + random() % (20 * kGrain));
    else if (die == 1)
      pair.claim({random() % Pair::kNGrains * kGrain, (1 + random() % 10) * kGrain});
    else
      pair.free(random() % pair.held.size());
    ASSERT_FALSE(HasFatalFailure());
    ASSERT_EQ(pair.extents.allocated_bytes(), pair.model.n_taken() * kGrain);
    ASSERT_EQ(pair.extents.n_gaps(), pair.model.n_gaps());
    ASSERT_EQ(pair.extents.largest_free_bytes(), pair.model.largest_free() * kGrain);
  }
  while (!pair.held.empty()) pair.free(0);
  EXPECT_EQ(pair.extents.end_bytes(), 0u);
  EXPECT_EQ(pair.extents.n_gaps(), 0u);
}

}  // namespace
}  // namespace castor

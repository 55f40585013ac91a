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

/// The same contract, one flag per grain.
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
  std::uint64_t n_taken() const { return static_cast<std::uint64_t>(std::count(taken_.begin(), taken_.end(), true)); }

 private:
  std::vector<bool> taken_;
};

TEST(ExtentAllocator, AgreesWithANaiveModel) {
  constexpr std::uint64_t kNGrains = 200;
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  ExtentAllocator extents(kNGrains * kGrain);
  NaiveModel model(kNGrains);
  std::vector<Extent> held;
  for (int step = 0; step < 20000; ++step) {
    if (held.empty() || random() % 2 == 0) {
      const std::uint64_t n_bytes = 1 + random() % (20 * kGrain);
      const auto got = extents.allocate(n_bytes);
      ASSERT_EQ(got.ok(), (n_bytes + kGrain - 1) / kGrain <= model.largest_free());
      if (!got.ok()) continue;
      ASSERT_EQ(got->n_bytes, (n_bytes + kGrain - 1) / kGrain * kGrain);
      ASSERT_LE(got->offset_bytes + got->n_bytes, kNGrains * kGrain);
      ASSERT_TRUE(model.all_are(*got, false));
      model.set(*got, true);
      held.push_back(*got);
    } else {
      std::swap(held[random() % held.size()], held.back());
      extents.free(held.back());
      model.set(held.back(), false);
      held.pop_back();
    }
    ASSERT_EQ(extents.allocated_bytes(), model.n_taken() * kGrain);
  }
  for (const auto& extent : held) extents.free(extent);
  EXPECT_EQ(extents.end_bytes(), 0u);
  EXPECT_EQ(extents.n_gaps(), 0u);
}

}  // namespace
}  // namespace castor

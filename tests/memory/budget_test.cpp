// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/budget.h>

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include <castor/memory/result.h>

namespace castor {
namespace {

TEST(Budget, GivesToTheLastByteAndNoFurther) {
  Budget budget(Tier::host, 100);
  EXPECT_TRUE(budget.try_reserve(60));
  EXPECT_FALSE(budget.try_reserve(41));
  EXPECT_EQ(budget.used_bytes(), 60u);
  EXPECT_TRUE(budget.try_reserve(40));
  EXPECT_EQ(budget.free_bytes(), 0u);
  EXPECT_TRUE(budget.try_reserve(0));
  EXPECT_FALSE(budget.try_reserve(1));
}

TEST(Budget, PeakStaysAfterRelease) {
  Budget budget(Tier::device, 100);
  ASSERT_TRUE(budget.try_reserve(70));
  budget.release(70);
  ASSERT_TRUE(budget.try_reserve(30));
  EXPECT_EQ(budget.used_bytes(), 30u);
  EXPECT_EQ(budget.peak_bytes(), 70u);
}

TEST(Budget, UnlimitedDoesNotWrapAround) {
  Budget budget(Tier::nvme);
  ASSERT_TRUE(budget.try_reserve(Budget::kUnlimited - 1));
  EXPECT_FALSE(budget.try_reserve(2));
  EXPECT_TRUE(budget.try_reserve(1));
}

TEST(Budget, ALoweredLimitKeepsWhatIsHeldAndStopsTheRest) {
  Budget budget(Tier::host, 100);
  ASSERT_TRUE(budget.try_reserve(80));
  budget.set_limit(50);
  EXPECT_EQ(budget.used_bytes(), 80u);
  EXPECT_EQ(budget.free_bytes(), 0u);
  EXPECT_FALSE(budget.try_reserve(0)) << "nothing can be reserved above the limit";
  budget.release(40);
  EXPECT_TRUE(budget.try_reserve(10));
  EXPECT_FALSE(budget.try_reserve(1));
}

TEST(Budget, ErrorsSpeakOfWhatWasStated) {
  Budget budget(Tier::device, 100);
  ASSERT_TRUE(budget.try_reserve(80));
  EXPECT_EQ(budget.stated_bytes(), 100u);
  EXPECT_EQ(budget.stated_for(30), 110u);
  budget.set_others_bytes(1000);
  EXPECT_EQ(budget.stated_bytes(), 1100u);
  EXPECT_EQ(budget.stated_for(30), 1110u);
  budget.set_enough_bytes(500);
  EXPECT_EQ(budget.stated_for(30), 1500u) << "what is known to come counts, and not in steps";
  EXPECT_EQ(budget.limit_bytes(), 100u);
  budget.set_limit(Budget::kUnlimited);
  EXPECT_EQ(budget.stated_bytes(), Budget::kUnlimited);
}

TEST(Budget, GivingBackTooMuchChangesNothing) {
  Budget budget(Tier::host, 100);
  ASSERT_TRUE(budget.try_reserve(10));
  EXPECT_THROW(budget.release(11), ContractViolation);
  EXPECT_EQ(budget.used_bytes(), 10u);
  EXPECT_TRUE(budget.try_reserve(90)) << "the refused release must not have wrapped the counter";
}

TEST(Budget, ThreadsNeverExceedTheLimitTogether) {
  constexpr std::uint64_t kLimit = 1000;
  Budget budget(Tier::host, kLimit);
  std::atomic<std::uint64_t> n_granted{0};
  const auto churn = [&](std::uint64_t n_bytes) {
    for (int round = 0; round < 20'000; ++round)
      if (budget.try_reserve(n_bytes)) {
        ++n_granted;
        budget.release(n_bytes);
      }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t n_bytes : {300u, 400u, 500u, 600u}) threads.emplace_back(churn, n_bytes);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_LE(budget.peak_bytes(), kLimit);
  EXPECT_GT(n_granted.load(), 0u);
  EXPECT_GE(budget.peak_bytes(), 300u);  // a preempted thread may keep every larger request from fitting
}

}  // namespace
}  // namespace castor

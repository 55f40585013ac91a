// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/limited_resource.h>

#include <gtest/gtest.h>

#include <vector>

#include <castor/memory/buffer.h>
#include <castor/memory/bytes.h>
#include <castor/memory/host_resource.h>

namespace castor {
namespace {

TEST(LimitedResource, RefusesWithTheFiguresOfTheTier) {
  HostResource host;
  Budget budget(Tier::device, 64 * kMiB);
  LimitedResource resource(host, budget);
  const auto held = std::move(Buffer::allocate(resource, 40 * kMiB)).value();
  const auto refused = resource.allocate(30 * kMiB);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  EXPECT_EQ(refused.error().message, "device tier: 30.0 MiB asked for, 24.0 MiB free under the 64.0 MiB budget");
  EXPECT_EQ(refused.error().option, "device_budget");
  ASSERT_TRUE(refused.error().shortage);
  EXPECT_EQ(refused.error().shortage->tier, Tier::device);
  EXPECT_EQ(refused.error().shortage->needed_bytes, 70 * kMiB);
  EXPECT_EQ(refused.error().shortage->available_bytes, 64 * kMiB);
  EXPECT_EQ(budget.used_bytes(), 40 * kMiB);
}

TEST(LimitedResource, ReturnsTheReservationWhenUpstreamRefuses) {
  HostResource host;
  Budget budget(Tier::host);
  LimitedResource resource(host, budget);
  EXPECT_FALSE(resource.allocate(std::uint64_t{1} << 60).ok());
  EXPECT_EQ(budget.used_bytes(), 0u);
}

TEST(LimitedResource, TwoShareOneBudget) {
  HostResource host;
  Budget budget(Tier::host, 100);
  LimitedResource first(host, budget), second(host, budget);
  const auto held = std::move(Buffer::allocate(first, 60)).value();
  EXPECT_FALSE(second.allocate(60).ok());
  EXPECT_TRUE(Buffer::allocate(second, 40).ok());
}

class LimitedResourceExchange : public ::testing::Test {
 protected:
  void exchange(std::vector<std::uint64_t> sizes) { outcome_ = resource_.exchange(blocks_, sizes); }
  void TearDown() override { (void)resource_.exchange(blocks_, {}); }

  HostResource host_;
  Budget budget_{Tier::host, 100};
  LimitedResource resource_{host_, budget_};
  std::vector<MemoryBlock> blocks_ = {{resource_.allocate(30).value(), 30}, {resource_.allocate(40).value(), 40}};
  Result<void> outcome_;
};

TEST_F(LimitedResourceExchange, CountsWhatThereIsAfterwards) {
  exchange({90});
  EXPECT_TRUE(outcome_.ok());
  EXPECT_EQ(budget_.used_bytes(), 90u);
  exchange({10, 20});
  EXPECT_EQ(budget_.used_bytes(), 30u);
  EXPECT_EQ(budget_.peak_bytes(), 90u) << "the old ones are not counted beside the new ones";
}

TEST_F(LimitedResourceExchange, LeavesTheBlocksWhereTheBudgetRefuses) {
  exchange({50, 51});
  ASSERT_FALSE(outcome_.ok());
  EXPECT_EQ(outcome_.error().message, "host tier: 101 B asked for, 100 B free under the 100 B budget");
  EXPECT_EQ(blocks_.size(), 2u);
  EXPECT_EQ(budget_.used_bytes(), 70u);
}

TEST_F(LimitedResourceExchange, ReleasesWhatUpstreamHasLost) {
  budget_.set_limit(Budget::kUnlimited);
  exchange({std::uint64_t{1} << 60});
  EXPECT_FALSE(outcome_.ok());
  EXPECT_TRUE(blocks_.empty());
  EXPECT_EQ(budget_.used_bytes(), 0u);
}

}  // namespace
}  // namespace castor

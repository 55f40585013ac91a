// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/limited_resource.h>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace castor

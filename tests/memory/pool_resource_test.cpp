// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/pool_resource.h>

#include <gtest/gtest.h>

#include <utility>

#include <castor/memory/buffer.h>
#include <castor/memory/host_resource.h>
#include <castor/memory/limited_resource.h>

namespace castor {
namespace {

class PoolResourceTest : public ::testing::Test {
 protected:
  Buffer allocate(std::uint64_t n_bytes) { return std::move(Buffer::allocate(pool_, n_bytes)).value(); }

  HostResource host_;
  Budget budget_{Tier::host, 100'000};
  LimitedResource limited_{host_, budget_};
  PoolResource pool_{limited_};
};

TEST_F(PoolResourceTest, HandsTheSameBlockOutAgain) {
  auto buffer = allocate(8192);
  auto* const data = buffer.data();
  data[0] = std::byte{9};
  buffer = Buffer();
  EXPECT_EQ(pool_.kept_bytes(), 8192u);
  buffer = allocate(8192);
  EXPECT_EQ(buffer.data(), data);
  EXPECT_EQ(buffer.data()[0], std::byte{9}) << "the page was never given back";
  EXPECT_EQ(pool_.kept_bytes(), 0u);
}

TEST_F(PoolResourceTest, ReusesExactSizesOnly) {
  { const auto buffer = allocate(8192); }
  const auto smaller = allocate(8191);
  EXPECT_EQ(pool_.kept_bytes(), 8192u);
  EXPECT_EQ(budget_.used_bytes(), 8192u + 8191u);
}

TEST_F(PoolResourceTest, KeptBlocksGiveWayBeforeARequestIsRefused) {
  {
    const auto first = allocate(40'000);
    const auto second = allocate(50'000);
  }
  EXPECT_EQ(pool_.kept_bytes(), 90'000u);
  const auto other = Buffer::allocate(pool_, 95'000);
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_EQ(budget_.used_bytes(), 95'000u);
}

TEST_F(PoolResourceTest, RefusesWhatDoesNotFitBesideLiveBlocks) {
  const auto live = allocate(60'000);
  { const auto kept = allocate(30'000); }
  const auto refused = Buffer::allocate(pool_, 50'000);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("39.1 KiB free"), std::string::npos)
      << "the figures are those after the kept blocks went: " << refused.error().message;
  EXPECT_EQ(budget_.used_bytes(), 60'000u);
}

TEST_F(PoolResourceTest, TrimReportsWhatItGaveBack) {
  {
    const auto first = allocate(10'000);
    const auto second = allocate(10'000);
    const auto third = allocate(5'000);
  }
  EXPECT_EQ(pool_.trim(), 25'000u);
  EXPECT_EQ(pool_.kept_bytes(), 0u);
  EXPECT_EQ(budget_.used_bytes(), 0u);
}

TEST_F(PoolResourceTest, ItsEndGivesEverythingBack) {
  {
    PoolResource other(limited_);
    const auto buffer = std::move(Buffer::allocate(other, 10'000)).value();
  }
  EXPECT_EQ(budget_.used_bytes(), 0u);
}

}  // namespace
}  // namespace castor

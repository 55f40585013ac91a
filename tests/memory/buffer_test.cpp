// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/buffer.h>

#include <gtest/gtest.h>

#include <castor/memory/budget.h>
#include <castor/memory/host_resource.h>
#include <castor/memory/limited_resource.h>

namespace castor {
namespace {

/// A budget counts the bytes held, so a buffer that leaks or frees twice shows.
class BufferTest : public ::testing::Test {
 protected:
  HostResource host_;
  Budget budget_{Tier::host, 100'000};
  LimitedResource resource_{host_, budget_};
};

TEST_F(BufferTest, OwnsExactlyWhatWasAskedFor) {
  {
    const auto buffer = std::move(Buffer::allocate(resource_, 5000)).value();
    EXPECT_TRUE(static_cast<bool>(buffer));
    EXPECT_EQ(buffer.n_bytes(), 5000u);
    EXPECT_EQ(buffer.view().data, buffer.data());
    EXPECT_EQ(budget_.used_bytes(), 5000u);
  }
  EXPECT_EQ(budget_.used_bytes(), 0u);
}

TEST_F(BufferTest, MovingLeavesAnEmptyBufferBehind) {
  auto first = std::move(Buffer::allocate(resource_, 1000)).value();
  auto* const data = first.data();
  Buffer second(std::move(first));
  EXPECT_EQ(second.data(), data);
  EXPECT_FALSE(static_cast<bool>(first));
  EXPECT_EQ(first.n_bytes(), 0u);
  EXPECT_EQ(budget_.used_bytes(), 1000u);
}

TEST_F(BufferTest, AssignmentGivesTheOldBytesBack) {
  auto buffer = std::move(Buffer::allocate(resource_, 1000)).value();
  buffer = std::move(Buffer::allocate(resource_, 300)).value();
  EXPECT_EQ(budget_.used_bytes(), 300u);
  buffer = Buffer();
  EXPECT_EQ(budget_.used_bytes(), 0u);
}

TEST_F(BufferTest, SelfAssignmentKeepsTheBytes) {
  auto buffer = std::move(Buffer::allocate(resource_, 1000)).value();
  auto& same = buffer;
  buffer = std::move(same);
  EXPECT_EQ(buffer.n_bytes(), 1000u);
  EXPECT_EQ(budget_.used_bytes(), 1000u);
}

TEST_F(BufferTest, HandsOnTheRefusalOfItsResource) {
  const auto refused = Buffer::allocate(resource_, 100'001);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
}

TEST(BufferView, PartsLieInside) {
  std::byte bytes[100];
  const BufferView all{bytes, 100};
  EXPECT_EQ(all.part(0, 100).n_bytes, 100u);
  EXPECT_EQ(all.part(40, 10).data, bytes + 40);
  EXPECT_EQ(all.part(100, 0).n_bytes, 0u);
  EXPECT_THROW((void)all.part(0, 101), ContractViolation);
  EXPECT_THROW((void)all.part(101, 0), ContractViolation);
  EXPECT_THROW((void)all.part(60, 41), ContractViolation);
  EXPECT_THROW((void)all.part(50, ~std::uint64_t{0}), ContractViolation) << "offset + size wraps around";
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/pool_resource.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <future>
#include <random>
#include <utility>
#include <vector>

#include <castor/memory/buffer.h>
#include <castor/memory/bytes.h>
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

TEST_F(PoolResourceTest, TakesMoreWhileLittleIsIdle) {
  const auto live = allocate(90'000);
  { const auto idle = allocate(800); }
  const auto other = allocate(700);
  EXPECT_EQ(pool_.kept_bytes(), 800u);
  EXPECT_EQ(budget_.used_bytes(), 90'000u + 800u + 700u);
}

// ---- the reserve ----

TEST_F(PoolResourceTest, HandsOutWhatWasSetAsideOnceItMay) {
  pool_.set_aside(8192).value();
  EXPECT_EQ(pool_.reserve_bytes(), 8192u);
  EXPECT_EQ(pool_.kept_bytes(), 0u);
  const auto other = allocate(8192);
  EXPECT_EQ(pool_.reserve_bytes(), 8192u) << "upstream has more";
  pool_.use_reserve();
  EXPECT_EQ(pool_.reserve_bytes(), 0u);
  EXPECT_EQ(pool_.kept_bytes(), 8192u);
  const auto same = allocate(8192);
  EXPECT_EQ(pool_.kept_bytes(), 0u);
  EXPECT_EQ(budget_.used_bytes(), 2 * 8192u);
  EXPECT_EQ(pool_.peak_in_use_bytes(), 2 * 8192u);
}

TEST_F(PoolResourceTest, HandsOutWhatWasSetAsideWhereUpstreamRefuses) {
  pool_.set_aside(40'000).value();
  const auto most = allocate(50'000);
  const auto other = allocate(30'000);
  EXPECT_EQ(pool_.reserve_bytes(), 0u);
  EXPECT_LE(budget_.used_bytes(), 100'000u);
  EXPECT_FALSE(pool_.allocate(30'000).ok());
}

TEST_F(PoolResourceTest, SetsAsideOfIdleBlocksWhereUpstreamRefuses) {
  { const auto idle = allocate(90'000); }
  pool_.set_aside(60'000).value();
  EXPECT_EQ(pool_.reserve_bytes(), 60'000u);
  EXPECT_LE(budget_.used_bytes(), 100'000u);
  const auto refused = pool_.set_aside(60'000);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
}

TEST_F(PoolResourceTest, GivesBackWhatWasSetAside) {
  pool_.set_aside(8192).value();
  pool_.drop_reserve();
  EXPECT_EQ(budget_.used_bytes(), 0u);
  pool_.set_aside(8192).value();
  EXPECT_EQ(pool_.trim(), 8192u);
  EXPECT_EQ(budget_.used_bytes(), 0u);
  pool_.set_aside(8192).value();  // left to the destructor
}

/// Upstream that does not return before it may.
class SlowResource final : public MemoryResource {
 public:
  Result<void*> allocate(std::uint64_t n_bytes) override {
    asked.set_value();
    may_return.get_future().wait();
    return host_.allocate(n_bytes);
  }
  void deallocate(void* data, std::uint64_t n_bytes) noexcept override { host_.deallocate(data, n_bytes); }

  std::promise<void> asked, may_return;

 private:
  HostResource host_;
};

TEST(PoolReserve, IsTakenWhileOtherCallsGoOn) {
  SlowResource slow;
  PoolResource pool(slow);
  const auto taken = std::async(std::launch::async, [&pool] { return pool.set_aside(8192).ok(); });
  slow.asked.get_future().wait();
  EXPECT_EQ(pool.reserve_bytes(), 0u);
  pool.use_reserve();
  slow.may_return.set_value();
}

TEST_F(PoolResourceTest, MakesOtherSizesOfWhatIsIdle) {
  { const auto idle = allocate(8192); }
  const auto smaller = allocate(8191);
  EXPECT_EQ(pool_.kept_bytes(), 0u);
  EXPECT_EQ(budget_.used_bytes(), 8191u);
}

TEST_F(PoolResourceTest, MakesSeveralOfOneLargeBlock) {
  budget_.set_limit(16 * kMiB);
  { const auto idle = allocate(16 * kMiB); }
  const auto first = allocate(3 * kMiB);
  EXPECT_EQ(pool_.kept_bytes(), 12 * kMiB) << "four more, and a rest that is too small";
  const auto second = allocate(3 * kMiB);
  EXPECT_EQ(pool_.kept_bytes(), 9 * kMiB);
  EXPECT_EQ(budget_.used_bytes(), 15 * kMiB);
}

TEST_F(PoolResourceTest, MakesOneSmallBlockOfALargeOneAndKeepsTheRest) {
  budget_.set_limit(16 * kMiB);
  { const auto idle = allocate(16 * kMiB); }
  const auto small = allocate(1);
  EXPECT_EQ(pool_.kept_bytes(), 16 * kMiB - 1);
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
      << "the figures are those without the kept blocks: " << refused.error().message;
  EXPECT_EQ(pool_.kept_bytes(), 30'000u) << "nothing is lost by asking";
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

/// Blocks of few and of any sizes, in any order, against a model that knows sizes alone.
class PoolResourceRandom : public ::testing::TestWithParam<unsigned> {
 protected:
  struct Held {
    Buffer buffer;
    std::byte mark{};
  };

  std::uint64_t any_size() {
    constexpr std::array<std::uint64_t, 5> kUsual = {3 * kMiB, 12 * kMiB + 512, 18 * kMiB, 2 * kMiB, 40'000};
    if (random_() % 4 != 0) return kUsual[random_() % kUsual.size()];
    return 1 + random_() % (random_() % 2 == 0 ? 20 * kMiB : 9000);
  }

  std::uint64_t in_use() const {
    std::uint64_t n_bytes = 0;
    for (const Held& held : held_) n_bytes += held.buffer.n_bytes();
    return n_bytes;
  }

  /// Visits one byte of each page and the last byte: they hold the block's mark.
  template <typename Each>
  static void visit(const Held& held, const Each& each) {
    for (std::uint64_t at = 0; at < held.buffer.n_bytes(); at += kBufferAlignBytes) each(held.buffer.data()[at]);
    each(held.buffer.data()[held.buffer.n_bytes() - 1]);
  }

  void allocate() {
    const std::uint64_t n_bytes = any_size(), before_bytes = in_use();
    auto buffer = Buffer::allocate(pool_, n_bytes);
    ASSERT_EQ(buffer.ok(), before_bytes + n_bytes <= kLimitBytes) << n_bytes << " bytes beside " << before_bytes;
    if (!buffer.ok()) return;
    peak_bytes_ = std::max(peak_bytes_, before_bytes + n_bytes);
    held_.push_back({std::move(*buffer), static_cast<std::byte>(random_())});
    visit(held_.back(), [&](std::byte& byte) { byte = held_.back().mark; });
  }

  void free() {
    if (held_.empty()) return;
    std::swap(held_[random_() % held_.size()], held_.back());
    visit(held_.back(), [&](std::byte& byte) { ASSERT_EQ(byte, held_.back().mark) << "two blocks overlap"; });
    held_.pop_back();
  }

  static constexpr std::uint64_t kLimitBytes = 64 * kMiB;
  std::mt19937 random_{GetParam()};
  HostResource host_;
  Budget budget_{Tier::host, kLimitBytes};
  LimitedResource limited_{host_, budget_};
  PoolResource pool_{limited_};
  std::uint64_t peak_bytes_ = 0;
  std::vector<Held> held_;
};

TEST_P(PoolResourceRandom, ServesWhateverFitsAndTakesNoMoreThanThat) {
  for (int i = 0; i < 400; ++i) {
    ASSERT_NO_FATAL_FAILURE(random_() % 5 < 3 ? allocate() : free()) << "operation " << i;
    ASSERT_EQ(budget_.used_bytes(), in_use() + pool_.kept_bytes());
    ASSERT_LE(budget_.used_bytes(), peak_bytes_ + peak_bytes_ / 32);
  }
  held_.clear();
  pool_.trim();
  EXPECT_EQ(budget_.used_bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PoolResourceRandom, ::testing::Range(0u, 12u));

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <castor/memory/buffer.h>
#include <castor/memory/bytes.h>
#include <castor/memory/device.h>

namespace castor::conformance {

/// The contract of MemoryResource, run over every implementation:
///
///   INSTANTIATE_TYPED_TEST_SUITE_P(Host, MemoryResourceSuite, HostSubject);
///
/// A Subject is default-constructible and has
///   std::string missing()           why this machine cannot run it, empty if it can; nothing else is called then
///   Device& device()                whose streams copy to and from the memory
///   MemoryResource& resource()      with room for 64 MiB
///   std::uint64_t align_bytes()     every allocation starts at a multiple of it
template <typename Subject>
class MemoryResourceSuite : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = subject_.missing(); !reason.empty()) GTEST_SKIP() << reason;
  }

  MemoryResource& resource() { return subject_.resource(); }

  Buffer allocate(std::uint64_t n_bytes) { return std::move(Buffer::allocate(resource(), n_bytes)).value(); }

  /// Copies `pattern` into `buffer`, through a stream, since the host may not be able to write there.
  void fill(const Buffer& buffer, const std::vector<std::uint8_t>& pattern) {
    const auto stream = std::move(subject_.device().make_stream()).value();
    stream->copy(buffer.data(), pattern.data(), pattern.size()).wait().value();
  }
  std::vector<std::uint8_t> contents(const Buffer& buffer) {
    std::vector<std::uint8_t> bytes(buffer.n_bytes());
    const auto stream = std::move(subject_.device().make_stream()).value();
    stream->copy(bytes.data(), buffer.data(), bytes.size()).wait().value();
    return bytes;
  }

  void fill(const MemoryBlock& block, std::uint8_t value) {
    const std::vector<std::uint8_t> bytes(block.n_bytes, value);
    const auto stream = std::move(subject_.device().make_stream()).value();
    stream->copy(block.data, bytes.data(), bytes.size()).wait().value();
  }
  void expect_filled(const MemoryBlock& block, std::uint8_t value) {
    std::vector<std::uint8_t> bytes(block.n_bytes);
    const auto stream = std::move(subject_.device().make_stream()).value();
    stream->copy(bytes.data(), block.data, bytes.size()).wait().value();
    EXPECT_EQ(bytes, std::vector<std::uint8_t>(block.n_bytes, value));
  }

  Subject subject_;
};

TYPED_TEST_SUITE_P(MemoryResourceSuite);

TYPED_TEST_P(MemoryResourceSuite, StartsAtTheDocumentedAlignment) {
  std::vector<Buffer> held;
  for (const std::uint64_t n_bytes : {1u, 511u, 512u, 4095u, 4096u, 4097u, 100'003u, 1u << 20}) {
    held.push_back(this->allocate(n_bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(held.back().data()) % this->subject_.align_bytes(), 0u)
        << n_bytes << " bytes";
  }
}

TYPED_TEST_P(MemoryResourceSuite, KeepsEveryByteOfEveryBlockApart) {
  std::vector<Buffer> held;
  for (std::uint8_t k = 0; k < 16; ++k) {
    held.push_back(this->allocate(10'000 + k));
    this->fill(held.back(), std::vector<std::uint8_t>(10'000 + k, k));
  }
  for (std::uint8_t k = 0; k < 16; ++k)
    EXPECT_EQ(this->contents(held[k]), std::vector<std::uint8_t>(10'000 + k, k)) << "block " << int{k};
}

TYPED_TEST_P(MemoryResourceSuite, TakesItsMemoryBack) {
  for (int round = 0; round < 64; ++round) {  // 64 × 32 MiB: far beyond the 64 MiB of room if anything stayed
    const auto buffer = Buffer::allocate(this->resource(), 32 * kMiB);
    ASSERT_TRUE(buffer.ok()) << "round " << round << ": " << buffer.error().message;
  }
}

TYPED_TEST_P(MemoryResourceSuite, ExchangesBlocksForOthers) {
  auto& resource = this->resource();
  std::vector<MemoryBlock> blocks;
  for (const std::uint64_t n_bytes : {3 * kMiB, 4 * kMiB + 5000, 7 * kMiB})
    blocks.push_back({resource.allocate(n_bytes).value(), n_bytes});
  for (const std::vector<std::uint64_t>& sizes :
       {std::vector<std::uint64_t>{14 * kMiB}, {6 * kMiB, 1, 5 * kMiB, 9 * kMiB}, {2 * kMiB}, {}}) {
    resource.exchange(blocks, sizes).value();
    ASSERT_EQ(blocks.size(), sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(blocks[i].n_bytes, sizes[i]);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks[i].data) % this->subject_.align_bytes(), 0u);
      this->fill(blocks[i], static_cast<std::uint8_t>(i + 1));
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) this->expect_filled(blocks[i], static_cast<std::uint8_t>(i + 1));
  }
}

TYPED_TEST_P(MemoryResourceSuite, RefusesZeroBytesAsABrokenContract) {
  EXPECT_THROW((void)this->resource().allocate(0), ContractViolation);
}

TYPED_TEST_P(MemoryResourceSuite, SaysDoesNotFitWithTheSizeAndStaysUsable) {
  const auto kept = this->allocate(5000);
  this->fill(kept, std::vector<std::uint8_t>(5000, 0x5a));
  const auto refused = this->resource().allocate(std::uint64_t{1} << 60);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  EXPECT_NE(refused.error().message.find("1048576 TiB"), std::string::npos) << refused.error().message;
  EXPECT_EQ(this->contents(kept), std::vector<std::uint8_t>(5000, 0x5a));
  this->fill(this->allocate(1 * kMiB), std::vector<std::uint8_t>(kMiB, 1));
}

TYPED_TEST_P(MemoryResourceSuite, TrimLeavesLiveBlocksAlone) {
  const auto live = this->allocate(8192);
  this->fill(live, std::vector<std::uint8_t>(8192, 0x77));
  { const auto freed = this->allocate(8192); }
  this->resource().trim();
  EXPECT_EQ(this->contents(live), std::vector<std::uint8_t>(8192, 0x77));
  EXPECT_EQ(this->resource().trim(), 0u) << "a second trim finds nothing kept";
}

TYPED_TEST_P(MemoryResourceSuite, ServesThreadsAtOnce) {
  std::atomic<int> n_refused{0};
  const auto churn = [&] {
    for (int round = 0; round < 100; ++round)
      if (!Buffer::allocate(this->resource(), 4096u * (1 + round % 3)).ok()) ++n_refused;
  };
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) threads.emplace_back(churn);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(n_refused, 0);
}

REGISTER_TYPED_TEST_SUITE_P(MemoryResourceSuite, StartsAtTheDocumentedAlignment, KeepsEveryByteOfEveryBlockApart,
                            TakesItsMemoryBack, ExchangesBlocksForOthers, RefusesZeroBytesAsABrokenContract,
                            SaysDoesNotFitWithTheSizeAndStaysUsable, TrimLeavesLiveBlocksAlone, ServesThreadsAtOnce);

}  // namespace castor::conformance

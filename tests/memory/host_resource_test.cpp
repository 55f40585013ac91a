// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/host_resource.h>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <utility>
#include <vector>

#include <castor/memory/bytes.h>

namespace castor {
namespace {

constexpr std::uint64_t kPageBytes = 4096, kHugePageBytes = 2 * kMiB;

bool is_mapped(const std::byte* page) {
  unsigned char resident = 0;
  return mincore(const_cast<std::byte*>(page), kPageBytes, &resident) == 0 || errno != ENOMEM;
}

TEST(HostResource, FromTwoMiBOnMemoryBeginsAtAHugePage) {
  HostResource host;
  for (const std::uint64_t n_bytes : {2 * kMiB, 2 * kMiB + 1, 7 * kMiB - kPageBytes}) {
    void* const data = host.allocate(n_bytes).value();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % kHugePageBytes, 0u) << n_bytes;
    host.deallocate(data, n_bytes);
  }
}

TEST(HostResource, EveryPageIsThereUntilItIsGivenBack) {
  HostResource host;
  for (const std::uint64_t n_bytes : {kPageBytes, 2 * kMiB - kPageBytes, 2 * kMiB, 7 * kMiB - kPageBytes}) {
    auto* const data = static_cast<std::byte*>(host.allocate(n_bytes).value());
    for (std::uint64_t at = 0; at < n_bytes; at += kPageBytes) data[at] = std::byte{1};
    host.deallocate(data, n_bytes);
    for (std::uint64_t at = 0; at < n_bytes; at += kPageBytes) ASSERT_FALSE(is_mapped(data + at)) << n_bytes;
  }
}

TEST(HostResource, PagesFaultedInAreThereAndZero) {
  HostResource host;
  for (const unsigned n_threads : {1U, 4U})
    for (const std::uint64_t n_bytes : {kPageBytes, kHugePageBytes + 1, 9 * kMiB - kPageBytes}) {
      auto* const data = static_cast<std::byte*>(host.allocate(n_bytes).value());
      data[5] = std::byte{7};
      fault_in({data + 5, n_bytes - 5}, n_threads);
      EXPECT_EQ(std::exchange(data[5], std::byte{}), std::byte{7});
      for (std::uint64_t at = 0; at < n_bytes; at += kPageBytes) {
        unsigned char resident = 0;
        ASSERT_EQ(mincore(data + at, kPageBytes, &resident), 0);
        EXPECT_EQ(resident & 1, 1) << at << " of " << n_bytes;
        EXPECT_EQ(data[at], std::byte{0});
      }
      host.deallocate(data, n_bytes);
    }
}

std::uint64_t mapped_bytes() {
  std::uint64_t n_pages = 0;
  std::ifstream("/proc/self/statm") >> n_pages;
  return n_pages * kPageBytes;
}

/// The bytes that are mapped around an allocation in order to align it are unmapped at once.
TEST(HostResource, TakesNoMoreAddressesThanBytes) {
  HostResource host;
  std::vector<void*> blocks;
  const auto before = mapped_bytes();
  for (int i = 0; i < 100; ++i) blocks.push_back(host.allocate(2 * kMiB).value());
  EXPECT_LT(mapped_bytes() - before, 220 * kMiB);
  for (void* block : blocks) host.deallocate(block, 2 * kMiB);
  EXPECT_LT(mapped_bytes(), before + 20 * kMiB);
}

/// Marks each huge page of the block with numbers from `first` on.
void mark(const MemoryBlock& block, std::uint32_t first) {
  for (std::uint64_t at = 0; at + kHugePageBytes <= block.n_bytes; at += kHugePageBytes)
    *reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(block.data) + at) = first++;
}

TEST(HostResource, AnExchangeKeepsThePages) {
  HostResource host;
  std::vector<MemoryBlock> blocks;
  for (const std::uint64_t n_bytes : {6 * kMiB, 5 * kMiB, 8 * kMiB})  // 3, 2 and 4 whole huge pages
    blocks.push_back({host.allocate(n_bytes).value(), n_bytes});
  mark(blocks[0], 1), mark(blocks[1], 4), mark(blocks[2], 6);
  const std::vector<MemoryBlock> old = blocks;
  host.exchange(blocks, std::vector<std::uint64_t>{4 * kMiB, kMiB, 10 * kMiB}).value();
  std::vector<std::uint32_t> found;
  for (const auto& [data, n_bytes] : {blocks[0], blocks[2]})
    for (std::uint64_t at = 0; at < n_bytes; at += kHugePageBytes)
      found.push_back(*reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(data) + at));
  EXPECT_EQ(found, (std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 7}));
  for (const auto& [data, n_bytes] : old)
    for (std::uint64_t at = 0; at < n_bytes; at += kPageBytes)
      ASSERT_FALSE(is_mapped(static_cast<std::byte*>(data) + at)) << "the rest went back to the kernel";
  for (const auto& [data, n_bytes] : blocks) host.deallocate(data, n_bytes);
}

TEST(HostResource, PagesAreExchangedAgainAndAgain) {
  HostResource host;
  std::vector<MemoryBlock> blocks = {{host.allocate(12 * kMiB).value(), 12 * kMiB}};
  mark(blocks[0], 1);
  host.exchange(blocks, std::vector<std::uint64_t>(6, 2 * kMiB)).value();
  std::swap(blocks[0], blocks[5]);
  host.exchange(blocks, std::vector<std::uint64_t>{12 * kMiB}).value();
  std::vector<std::uint32_t> found;
  for (std::uint64_t at = 0; at < 12 * kMiB; at += kHugePageBytes)
    found.push_back(*reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(blocks[0].data) + at));
  EXPECT_EQ(found, (std::vector<std::uint32_t>{6, 2, 3, 4, 5, 1}));
  host.exchange(blocks, {}).value();
  EXPECT_TRUE(blocks.empty());
}

TEST(HostResource, AnExchangeThatCannotBeGivesAllBack) {
  HostResource host;
  std::vector<MemoryBlock> blocks = {{host.allocate(4 * kMiB).value(), 4 * kMiB}};
  auto* const page = static_cast<std::byte*>(blocks[0].data);
  const auto refused = host.exchange(blocks, std::vector<std::uint64_t>{2 * kMiB, std::uint64_t{1} << 60});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  EXPECT_TRUE(blocks.empty());
  EXPECT_FALSE(is_mapped(page));
}

}  // namespace
}  // namespace castor

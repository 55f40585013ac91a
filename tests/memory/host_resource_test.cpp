// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/host_resource.h>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
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

std::uint64_t mapped_bytes() {
  std::uint64_t n_pages = 0;
  std::ifstream("/proc/self/statm") >> n_pages;
  return n_pages * kPageBytes;
}

/// What is mapped around an allocation in order to align it goes at once.
TEST(HostResource, TakesNoMoreAddressesThanBytes) {
  HostResource host;
  std::vector<void*> blocks;
  const auto before = mapped_bytes();
  for (int i = 0; i < 100; ++i) blocks.push_back(host.allocate(2 * kMiB).value());
  EXPECT_LT(mapped_bytes() - before, 220 * kMiB);
  for (void* block : blocks) host.deallocate(block, 2 * kMiB);
  EXPECT_LT(mapped_bytes(), before + 20 * kMiB);
}

}  // namespace
}  // namespace castor

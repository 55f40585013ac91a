// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/host_resource.h>

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <castor/memory/bytes.h>
#include <castor/memory/host_memory.h>
#include <castor/memory/shortage.h>

namespace castor {
namespace {

constexpr std::uint64_t kHugePageBytes = 2 * kMiB;
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, of Linux 5.14; older C libraries do not define it

/// Maps `n_bytes` of fresh pages; null where the kernel refuses.
std::byte* map(std::uint64_t n_bytes) {
  void* data = ::mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

/// Maps `n_bytes` from a multiple of the huge page size on and asks for huge pages; null where the kernel refuses.
std::byte* map_for_huge_pages(std::uint64_t n_bytes) {
  std::byte* const begin = map(n_bytes + kHugePageBytes);
  if (!begin) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const auto head_bytes = align_up(address, kHugePageBytes) - address;
  std::byte* const data = begin + head_bytes;
  if (head_bytes > 0) ::munmap(begin, head_bytes);
  ::munmap(data + n_bytes, kHugePageBytes - head_bytes);
  ::madvise(data, n_bytes, MADV_HUGEPAGE);  // a refusal leaves small pages
  return data;
}

/// Hands out the whole huge pages of blocks that are out of use, one after another. The bytes beside them go back to
/// the kernel on the way, and pages that are not taken go back in the destructor. A page that was taken is not touched
/// again, because another thread may have mapped something in its place.
class HugePages {
 public:
  explicit HugePages(std::span<const MemoryBlock> blocks) : blocks_(blocks) {}
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;
  ~HugePages() {
    while (!blocks_.empty()) leave_block();
  }

  /// The next huge page; null where none is left.
  std::byte* take() {
    for (; !blocks_.empty(); leave_block()) {
      std::byte* const page = begin() + taken_bytes_;
      const bool aligned = reinterpret_cast<std::uintptr_t>(page) % kHugePageBytes == 0;
      if (!aligned || taken_bytes_ + kHugePageBytes > whole_bytes()) continue;
      taken_bytes_ += kHugePageBytes;
      return page;
    }
    return nullptr;
  }

 private:
  std::byte* begin() const { return static_cast<std::byte*>(blocks_.front().data); }
  std::uint64_t whole_bytes() const { return align_up(blocks_.front().n_bytes, kBufferAlignBytes); }
  void leave_block() {
    if (taken_bytes_ < whole_bytes()) ::munmap(begin() + taken_bytes_, whole_bytes() - taken_bytes_);
    blocks_ = blocks_.subspan(1);
    taken_bytes_ = 0;
  }

  std::span<const MemoryBlock> blocks_;
  std::uint64_t taken_bytes_ = 0;  ///< of the first block
};

/// Puts huge pages from `pages` in the place of those of `block` until either runs out. A page that the kernel does not
/// move is given back; returns false where that leaves a hole in `block`.
bool take_over(const MemoryBlock& block, HugePages& pages) {
  auto* const begin = static_cast<std::byte*>(block.data);
  if (reinterpret_cast<std::uintptr_t>(begin) % kHugePageBytes != 0) return true;
  for (std::uint64_t at = 0; at + kHugePageBytes <= block.n_bytes; at += kHugePageBytes) {
    std::byte* const page = pages.take();
    if (!page) return true;
    constexpr int kTo = MREMAP_MAYMOVE | MREMAP_FIXED, kInPlace = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (::mremap(page, kHugePageBytes, kHugePageBytes, kTo, begin + at) != MAP_FAILED) continue;
    ::munmap(page, kHugePageBytes);
    if (::mmap(begin + at, kHugePageBytes, PROT_READ | PROT_WRITE, kInPlace, -1, 0) == MAP_FAILED) return false;
  }
  return true;
}

Error refused(std::uint64_t n_bytes) {
  const auto reason = std::generic_category().message(errno);
  return does_not_fit({Tier::host, n_bytes, available_host_memory_bytes()},
                      "host tier: the kernel gave no " + format_bytes(n_bytes) + " of memory (" + reason +
                          "); lower `host_budget` or free memory");
}

}  // namespace

Result<void*> HostResource::allocate(std::uint64_t n_bytes) {
  if (n_bytes == 0) throw ContractViolation("HostResource: an allocation of 0 bytes");
  const auto whole_bytes = align_up(n_bytes, kBufferAlignBytes);
  std::byte* data = whole_bytes >= kHugePageBytes ? map_for_huge_pages(whole_bytes) : nullptr;
  if (!data) data = map(whole_bytes);
  if (data) return data;
  return refused(n_bytes);
}

void HostResource::deallocate(void* data, std::uint64_t n_bytes) noexcept {
  ::munmap(data, align_up(n_bytes, kBufferAlignBytes));
}

Result<void> HostResource::exchange(std::vector<MemoryBlock>& blocks, std::span<const std::uint64_t> sizes) {
  std::vector<MemoryBlock> made;
  made.reserve(sizes.size());
  Result<void> outcome;
  for (std::size_t i = 0; outcome.ok() && i < sizes.size(); ++i) {
    const auto fresh = allocate(sizes[i]);
    if (fresh.ok())
      made.push_back({*fresh, sizes[i]});
    else
      outcome = fresh.error();
  }
  {
    HugePages pages(blocks);
    for (std::size_t i = 0; outcome.ok() && i < made.size(); ++i)
      if (!take_over(made[i], pages)) outcome = refused(sizes[i]);
  }
  if (!outcome.ok()) {
    for (const auto& [data, n_bytes] : made) deallocate(data, n_bytes);
    made.clear();
  }
  blocks = std::move(made);
  return outcome;
}

void fault_in(const MemoryBlock& block, unsigned n_threads) {
  const auto address = reinterpret_cast<std::uintptr_t>(block.data);
  const std::uint64_t head_bytes = address % kBufferAlignBytes;
  auto* const begin = static_cast<std::byte*>(block.data) - head_bytes;
  const std::uint64_t whole_bytes = align_up(head_bytes + block.n_bytes, kBufferAlignBytes);
  const std::uint64_t part_bytes = align_up(whole_bytes / n_threads + 1, kHugePageBytes);
  const auto of_part = [&](std::uint64_t first) {
    ::madvise(begin + first, std::min(part_bytes, whole_bytes - first), kPopulateWrite);
  };
  std::vector<std::jthread> others;
  for (std::uint64_t first = part_bytes; first < whole_bytes; first += part_bytes) others.emplace_back(of_part, first);
  of_part(0);
}

}  // namespace castor

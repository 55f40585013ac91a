// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/host_resource.h>

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

#include <castor/memory/bytes.h>

namespace castor {
namespace {

constexpr std::uint64_t kHugePageBytes = 2 * kMiB;

/// Null where the kernel gives none.
std::byte* map(std::uint64_t n_bytes) {
  void* data = ::mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

/// The same at a multiple of a huge page, and with the wish for such pages.
std::byte* map_for_huge_pages(std::uint64_t n_bytes) {
  std::byte* const begin = map(n_bytes + kHugePageBytes);
  if (!begin) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const auto head_bytes = align_up(address, kHugePageBytes) - address;
  std::byte* const data = begin + head_bytes;
  if (head_bytes > 0) ::munmap(begin, head_bytes);
  ::munmap(data + n_bytes, kHugePageBytes - head_bytes);
  ::madvise(data, n_bytes, MADV_HUGEPAGE);  // where it is not granted there are small pages
  return data;
}

}  // namespace

Result<void*> HostResource::allocate(std::uint64_t n_bytes) {
  if (n_bytes == 0) throw ContractViolation("HostResource: an allocation of 0 bytes");
  const auto whole_bytes = align_up(n_bytes, kBufferAlignBytes);
  std::byte* data = whole_bytes >= kHugePageBytes ? map_for_huge_pages(whole_bytes) : nullptr;
  if (!data) data = map(whole_bytes);
  if (data) return data;
  const auto reason = std::generic_category().message(errno);
  return Error{ErrorKind::does_not_fit, "host tier: the kernel gave no " + format_bytes(n_bytes) + " of memory (" +
                                            reason + "); lower --host-budget or free memory"};
}

void HostResource::deallocate(void* data, std::uint64_t n_bytes) noexcept {
  ::munmap(data, align_up(n_bytes, kBufferAlignBytes));
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/memory_resource.h>

namespace castor {

/// Pageable host memory, a whole number of pages per allocation, straight from the kernel; memory that is given back
/// leaves the process.
///
/// Allocations from 2 MiB on use huge pages where the kernel has them (transparent_hugepage/enabled other than
/// `never`): 1 MiB in scattered 4-KiB pages is 256 pieces, more than many drives take in one request (254 on virtio),
/// and each request is then split, at half the rate or less.
class HostResource final : public MemoryResource {
 public:
  Result<void*> allocate(std::uint64_t n_bytes) override;
  void deallocate(void* data, std::uint64_t n_bytes) noexcept override;
  /// Moves the old blocks' pages into the new blocks, 2 MiB at a time (mremap): 0.002 s per GiB, where fresh pages are
  /// faulted in and zeroed at 0.2 to 0.5 s per GiB. A smaller block, and a block's rest above a multiple of 2 MiB, gets
  /// fresh pages.
  Result<void> exchange(std::vector<MemoryBlock>& blocks, std::span<const std::uint64_t> sizes) override;
};

/// Faults in the pages of `block` that are not there yet, zeroed; others keep their contents. With four threads 13 GiB/s,
/// where one, which is the caller's, reached 5 and sixteen no more than one (16 cores, huge pages, 2026-11-24). Pages that
/// the kernel cannot give now are faulted in by their first touch.
void fault_in(const MemoryBlock& block, unsigned n_threads = 4);

}  // namespace castor

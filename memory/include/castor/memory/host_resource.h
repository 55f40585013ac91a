// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/memory_resource.h>

namespace castor {

/// Pageable host memory, a whole number of pages per allocation, straight from the kernel: what is given back leaves
/// the process.
///
/// From 2 MiB on it lies in huge pages where the kernel has them (transparent_hugepage/enabled other than `never`): 1 MiB in
/// 4-KiB pages that lie here and there is 256 pieces, more than many drives take in one request (254 on virtio), and each
/// request is then split, at half the rate or less.
class HostResource final : public MemoryResource {
 public:
  Result<void*> allocate(std::uint64_t n_bytes) override;
  void deallocate(void* data, std::uint64_t n_bytes) noexcept override;
  /// The new blocks take the old ones' pages over, 2 MiB at a time (mremap): 0.002 s per GiB, where fresh pages are faulted in
  /// and zeroed at 0.2 to 0.5 s per GiB. What is smaller, or a block's rest above a multiple of that, comes fresh.
  Result<void> exchange(std::vector<MemoryBlock>& blocks, std::span<const std::uint64_t> sizes) override;
};

/// Has the kernel give the block its pages now, zeroed, by four threads: 13 GiB/s, where one reached 5 and sixteen no more than
/// one (16 cores, huge pages, 2026-11-24). What cannot be given now comes when it is first touched.
void fault_in(const MemoryBlock& block);

}  // namespace castor

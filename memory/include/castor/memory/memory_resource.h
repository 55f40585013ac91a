// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <castor/memory/result.h>

namespace castor {

/// One allocation of a MemoryResource.
struct MemoryBlock {
  void* data = nullptr;
  std::uint64_t n_bytes = 0;
};

/// A source of memory. Resources are small and wrap one another: `LimitedResource` counts against a Budget,
/// `PoolResource` keeps freed blocks for reuse, and the one at the bottom allocates (`HostResource`, pinned memory,
/// torch's allocator).
///
/// Threads: allocate, deallocate and exchange may be called from any thread.
class MemoryResource {
 public:
  virtual ~MemoryResource() = default;

  /// Returns at least `n_bytes` of memory that starts at a multiple of kBufferAlignBytes on the host and of
  /// kTensorAlignBytes on a device; contents are undefined. Requires: n_bytes > 0 (ContractViolation). Errors:
  /// does_not_fit, and then nothing has changed.
  virtual Result<void*> allocate(std::uint64_t n_bytes) = 0;

  /// Gives `data` back. Requires: `data` and `n_bytes` are those of an earlier allocate of this resource.
  virtual void deallocate(void* data, std::uint64_t n_bytes) noexcept = 0;

  /// Replaces `blocks` by one block of each of `sizes`, in that order, with undefined contents. The same as giving the
  /// old ones back and allocating the new ones, but a resource that can reuse pages makes the new blocks of the old
  /// pages. Requires: as deallocate and allocate. Errors: does_not_fit; then `blocks` are as they were, or all given
  /// back and empty.
  virtual Result<void> exchange(std::vector<MemoryBlock>& blocks, std::span<const std::uint64_t> sizes);

  /// Gives memory that is kept for reuse back to its source; returns the number of bytes.
  virtual std::uint64_t trim() noexcept { return 0; }
};

/// Bytes of `blocks` together.
std::uint64_t total_bytes(std::span<const MemoryBlock> blocks);

}  // namespace castor

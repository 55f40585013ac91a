// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <castor/memory/result.h>

namespace castor {

/// A source of memory. Resources are small and wrap one another: `LimitedResource` counts against a Budget,
/// `PoolResource` keeps freed blocks for reuse, and at the bottom stands what really allocates (`HostResource`, pinned
/// memory, torch's allocator).
///
/// Threads: allocate and deallocate may be called from any thread.
class MemoryResource {
 public:
  virtual ~MemoryResource() = default;

  /// Returns at least `n_bytes` of memory that starts at a multiple of kBufferAlignBytes on the host and of
  /// kTensorAlignBytes on a device; contents are undefined. Requires: n_bytes > 0 (ContractViolation). Errors:
  /// does_not_fit, and then nothing has changed.
  virtual Result<void*> allocate(std::uint64_t n_bytes) = 0;

  /// Gives `data` back. Requires: `data` and `n_bytes` are those of an earlier allocate of this resource.
  virtual void deallocate(void* data, std::uint64_t n_bytes) noexcept = 0;

  /// Gives memory that is kept for reuse back to where it came from; returns how many bytes.
  virtual std::uint64_t trim() noexcept { return 0; }
};

}  // namespace castor

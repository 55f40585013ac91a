// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include <castor/memory/memory_resource.h>

namespace castor {

/// Keeps freed blocks and hands them out again to requests of exactly the same size.
///
/// Chunks come in few sizes, so exact reuse hits nearly always, and no page is faulted in twice. When `upstream` is
/// full, every kept block is given back and the request is tried once more: a pool never makes a budget look smaller
/// than it is.
class PoolResource final : public MemoryResource {
 public:
  /// `upstream` is borrowed and must outlive the pool.
  explicit PoolResource(MemoryResource& upstream) : upstream_(upstream) {}
  ~PoolResource() override { trim(); }
  PoolResource(const PoolResource&) = delete;
  PoolResource& operator=(const PoolResource&) = delete;

  Result<void*> allocate(std::uint64_t n_bytes) override;
  void deallocate(void* data, std::uint64_t n_bytes) noexcept override;
  std::uint64_t trim() noexcept override;
  /// Bytes kept for reuse now.
  std::uint64_t kept_bytes() const;

 private:
  void* take_kept(std::uint64_t n_bytes);

  MemoryResource& upstream_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::vector<void*>> kept_;
};

}  // namespace castor

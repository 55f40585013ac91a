// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/budget.h>
#include <castor/memory/memory_resource.h>

namespace castor {

/// Hands requests that fit under `budget` on to `upstream`, and refuses the others with the numbers of both.
class LimitedResource final : public MemoryResource {
 public:
  /// Both are borrowed and must outlive the resource.
  LimitedResource(MemoryResource& upstream, Budget& budget) : upstream_(upstream), budget_(budget) {}

  Result<void*> allocate(std::uint64_t n_bytes) override;
  void deallocate(void* data, std::uint64_t n_bytes) noexcept override;
  /// A refusal by the budget leaves `blocks` as they were.
  Result<void> exchange(std::vector<MemoryBlock>& blocks, std::span<const std::uint64_t> sizes) override;
  std::uint64_t trim() noexcept override { return upstream_.trim(); }

 private:
  Error full(std::uint64_t n_bytes, std::uint64_t free_bytes) const;

  MemoryResource& upstream_;
  Budget& budget_;
};

}  // namespace castor

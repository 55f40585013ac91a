// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/budget.h>
#include <castor/memory/memory_resource.h>

namespace castor {

/// Hands on to `upstream` what fits under `budget`, and refuses the rest with the figures of both.
class LimitedResource final : public MemoryResource {
 public:
  /// Both are borrowed and must outlive the resource.
  LimitedResource(MemoryResource& upstream, Budget& budget) : upstream_(upstream), budget_(budget) {}

  Result<void*> allocate(std::uint64_t n_bytes) override;
  void deallocate(void* data, std::uint64_t n_bytes) noexcept override;
  std::uint64_t trim() noexcept override { return upstream_.trim(); }

 private:
  MemoryResource& upstream_;
  Budget& budget_;
};

}  // namespace castor

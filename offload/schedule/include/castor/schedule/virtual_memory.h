// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/memory/limited_resource.h>
#include <castor/memory/pool_resource.h>

namespace castor {

/// Addresses without memory behind them.
class VirtualMemory final : public MemoryResource {
 public:
  Result<void*> allocate(std::uint64_t n_bytes) override;
  void deallocate(void*, std::uint64_t) noexcept override {}
  Result<void> exchange(std::vector<MemoryBlock>& blocks, std::span<const std::uint64_t> sizes) override;

  /// Bytes since count_anew: newly taken, and made from blocks that were given in exchange.
  std::uint64_t fresh_bytes() const { return fresh_bytes_; }
  std::uint64_t exchanged_bytes() const { return exchanged_bytes_; }
  void count_anew() { fresh_bytes_ = exchanged_bytes_ = 0; }

 private:
  std::uintptr_t next_ = kFirst;
  std::uint64_t fresh_bytes_ = 0, exchanged_bytes_ = 0;
  static constexpr std::uintptr_t kFirst = 1 << 20;
};

/// A tier without memory under a budget, pooled as the real ones are.
struct VirtualTier {
  VirtualTier(Tier tier, std::uint64_t budget_bytes) : budget(tier, budget_bytes) {}

  VirtualMemory memory;
  Budget budget;
  LimitedResource limited{memory, budget};
  PoolResource pool{limited};
};

}  // namespace castor

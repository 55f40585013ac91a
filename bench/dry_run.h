// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <castor/chunk/chunk_manager.h>
#include <castor/memory/limited_resource.h>
#include <castor/memory/pool_resource.h>
#include <castor/offload/stateful_tensor_mgr.h>

#include "estimate/iteration.h"

namespace castor {

/// Addresses without memory behind them.
class NoMemory final : public MemoryResource {
 public:
  Result<void*> allocate(std::uint64_t n_bytes) override;
  void deallocate(void*, std::uint64_t) noexcept override {}
  Result<void> exchange(std::vector<MemoryBlock>& blocks, std::span<const std::uint64_t> sizes) override;

  /// Bytes since `count_anew`: asked for beside what was given for them, and given for others.
  std::uint64_t fresh_bytes() const { return fresh_bytes_; }
  std::uint64_t exchanged_bytes() const { return exchanged_bytes_; }
  void count_anew() { fresh_bytes_ = exchanged_bytes_ = 0; }

 private:
  std::uintptr_t next_ = kFirst;
  std::uint64_t fresh_bytes_ = 0, exchanged_bytes_ = 0;
  static constexpr std::uintptr_t kFirst = 1 << 20;
};

/// Counts what is in use of `upstream`.
class InUse final : public MemoryResource {
 public:
  explicit InUse(MemoryResource& upstream) : upstream_(upstream) {}
  Result<void*> allocate(std::uint64_t n_bytes) override;
  void deallocate(void* data, std::uint64_t n_bytes) noexcept override;
  std::uint64_t peak_bytes() const { return peak_bytes_; }

 private:
  MemoryResource& upstream_;
  std::uint64_t used_bytes_ = 0, peak_bytes_ = 0;
};

/// Training by the real mover and the real pools, on tiers without memory: copies move nothing and end at once, and a
/// clock that is no clock says that all moments take the same time.
class DryRun {
 public:
  struct Model {
    ChunkLayout layout, shards;     ///< of the whole model, and what one rank keeps of it
    estimate::Iteration iteration;  ///< of one rank's shards
    std::uint32_t n_ranks = 1;      ///< where above 1, chunks are gathered whole on the device while a unit computes
    std::uint64_t device_bytes = 0, host_bytes = 0;  ///< budgets of a rank
  };

  /// One tier of the rank.
  struct PoolTier {
    PoolTier(Tier tier, std::uint64_t budget_bytes) : budget(tier, budget_bytes) {}
    /// The most that the pool took, above the most that was in use of it, in percent of the latter.
    double waste_percent() const;

    NoMemory memory;
    Budget budget;
    LimitedResource limited{memory, budget};
    PoolResource pool{limited};
    InUse in_use{pool};
  };

  /// `model` is borrowed.
  explicit DryRun(const Model& model);

  /// One iteration. Errors: those of the mover.
  Result<void> step();

  const PoolTier& device() const { return device_; }
  const PoolTier& host() const { return host_; }
  /// In the last step.
  LinkBytes moved() const;

 private:
  Result<void> give_contents();
  void add_gathered();
  Result<void> run_moment(std::uint64_t position);
  std::vector<Need> needs_of(std::uint64_t position) const;
  Result<void> gradients_arrive(std::uint64_t position);
  bool is_gradient(ChunkId id) const { return id >= first_gradient_ && id < model_.iteration.n_bytes.size(); }

  const Model& model_;
  const ChunkId first_gradient_;
  PoolTier device_, host_;
  std::uint64_t now_ns_ = 1;
  Timeline timeline_{{}, [this] { return now_ns_ += 10; }};
  const std::unique_ptr<Stream> stream_;
  const std::unique_ptr<SpillStore> spill_;
  ChunkManager chunks_;
  StatefulTensorMgr mover_;
  std::map<ChunkId, ChunkId> gathered_;  ///< by payload: where it lies whole
  LinkBytes moved_before_;               ///< the last step
};

}  // namespace castor

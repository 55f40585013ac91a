// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <castor/io/tensor_store.h>
#include <castor/memory/host_resource.h>

#include "engine/event_pool.h"
#include "store_committer.h"
#include "store_lane.h"
#include "store_monitor.h"
#include "store_op.h"
#include "store_ops.h"
#include "store_parts.h"
#include "store_values.h"
#include "stripes/stripe_set.h"

namespace castor {

/// Runs operations: `queue` (caller) → `launch` finds the room (StoreValues) → lanes → the engine's thread, block by
/// block (StorePiece, StoreLane) → `finish` → the next operation of the key. StoreCommitter runs commits.
class TensorStore::Impl {
 public:
  Impl(const TensorStoreOptions& options, StoreParts parts);
  ~Impl();

  /// `checksums`: of the bytes' blocks; empty: the store makes them.
  Event queue(StoreOp::Kind kind, std::uint64_t key, BufferView bytes, std::span<const std::uint64_t> checksums = {});
  void remove(std::uint64_t key);
  Result<void> drain_puts();
  void drain_gets();

  void abandon();

  Event commit(std::uint64_t step);
  std::optional<std::uint64_t> committed_step() const;
  /// Takes over the values of the last commit, if there is one. Requires: nothing was queued.
  Result<void> restore() { return committer_ ? committer_->restore() : Result<void>(); }

  /// Calls `each` with the end of each block of a value of `n_bytes` that has a checksum; returns their number.
  template <typename Each>
  std::size_t for_each_block(std::uint64_t n_bytes, const Each& each) const {
    std::size_t n_blocks = 0;
    for (std::uint64_t at = 0; checksums_ && at < n_bytes; ++n_blocks)
      each(at = value_block_end(at, n_bytes, set_.block_bytes()));
    return n_blocks;
  }
  std::vector<std::uint64_t> keys() const;
  Result<std::uint64_t> value_bytes(std::uint64_t key) const;
  std::uint64_t register_memory(BufferView bytes);
  void unregister_memory(BufferView bytes);
  TensorStoreStats stats() const;
  const IoEngine& engine() const { return *parts_.engines.front(); }
  std::vector<std::string> warnings() const;

 private:
  void launch_all(OpsToStart& turn);
  void launch(StoreOp& op, OpsToStart& turn);
  Result<void> prepare(StoreOp& op);
  bool move_blocks(StoreOp& op);
  void on_ended(StoreOp& op);
  void finish(StoreOp& op, OpsToStart& turn);
  void leave_queue(StoreOp& op, OpsToStart& turn);

  const bool checksums_, read_only_;
  StoreParts parts_;
  StripeSet& set_;
  HostResource copy_memory_;  // for blocks at unaligned addresses: at most one per piece
  EventPool events_;

  mutable StoreMonitor monitor_;  // guards everything down to the lanes
  StoreValues values_;
  StoreOps ops_;
  std::size_t n_removers_ = 0;  // threads that wait until a key is free
  bool abandoned_ = false;
  std::optional<Error> first_put_error_;
  std::uint64_t bytes_read_ = 0;
  std::uint64_t bytes_written_ = 0;

  std::deque<StoreLane> lanes_;                // one per volume
  std::unique_ptr<StoreCommitter> committer_;  // null for scratch
};

}  // namespace castor

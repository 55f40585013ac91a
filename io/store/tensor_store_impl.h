// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <castor/io/stripe_set.h>
#include <castor/io/tensor_store.h>
#include <castor/memory/host_resource.h>

#include "engine/event_pool.h"
#include "engine/serial_worker.h"
#include "store_files.h"
#include "store_lane.h"
#include "store_op.h"

namespace castor {

/// What a store is made of.
struct StoreParts {
  std::unique_ptr<FolderOps> folder_ops;
  std::unique_ptr<StoreFiles> files;  ///< null for scratch
  std::unique_ptr<StripeSet> set;
  std::vector<std::unique_ptr<IoEngine>> engines;
  std::vector<std::size_t> engine_of;  ///< per volume
  std::size_t pieces_per_volume = 1;
  std::vector<std::string> warnings;
};

/// The way of an operation: `queue` (caller) → `launch` finds its room → lanes → the engine's thread, block by block
/// (StorePiece, StoreLane) → `finish` → the operation behind it.
///
/// tensor_store_impl.cpp holds that way; store_commit.cpp what makes it durable and brings it back.
class TensorStore::Impl {
 public:
  Impl(const TensorStoreOptions& options, StoreParts parts);
  ~Impl();

  /// `checksums`: of the bytes' blocks; empty: the store makes them.
  Event queue(StoreOp::Kind kind, std::uint64_t key, BufferView bytes, std::span<const std::uint64_t> checksums = {});
  void remove(std::uint64_t key);
  Result<void> drain_puts();
  void drain_gets();

  Event commit(std::uint64_t step);
  std::optional<std::uint64_t> committed_step() const;
  /// Takes over what the last commit left, if anything. Before anything is queued.
  Result<void> restore();

  /// How many blocks of a value of `n_bytes` have a checksum; `each` hears where they end.
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
  struct Commit {
    std::uint64_t step = 0;
    std::shared_ptr<HostEventState> done;  // owners: the worker and the caller's event
  };
  using Values = std::unordered_map<std::uint64_t, StoreEntry>;

  // The way of an operation:
  StoreOp& new_op(StoreOp::Kind kind, std::uint64_t key, BufferView bytes);
  void collect_turns(StoreEntry& entry, OpsToStart& turn);
  void launch_all(OpsToStart& turn);
  void launch(StoreOp& op, OpsToStart& turn);
  Result<void> prepare(StoreOp& op);
  Result<void> place(StoreOp& op);
  Result<std::optional<StoredValue>> make_way(const StoreOp& op);
  Result<void> find(const StoreOp& op) const;
  void move_blocks(StoreOp& op);
  void on_ended(StoreOp& op);
  void finish(StoreOp& op, OpsToStart& turn);
  void give_up_value(const StoreOp& op);
  void leave_queue(StoreOp& op, OpsToStart& turn);
  std::size_t& n_active(StoreOp::Kind kind) { return kind == StoreOp::Kind::put ? n_puts_ : n_gets_; }

  // Commit:
  void use_other_slot(StoreEntry& entry);
  void drop(std::uint64_t key, std::optional<StoredValue>& value);
  void run_commit(const Commit& commit);
  Result<void> make_durable(std::uint64_t step);
  Result<Manifest> describe(std::uint64_t step) const;
  Result<void> sync_volumes();
  Result<void> write_manifest(const Manifest& manifest);
  Error poison(const std::string& why);
  void promote(std::uint64_t step);
  void promote(std::uint64_t key, StoreEntry& entry);
  void lift_barrier(const Commit& commit, const Result<void>& outcome);

  const bool checksums_;
  const Durability durability_;
  const std::chrono::milliseconds timeout_;
  StoreParts parts_;
  StripeSet& set_;
  HostResource copy_memory_;  // for blocks at addresses that do not suit: at most one per piece
  EventPool events_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Values values_;
  std::deque<StoreOp> ops_;
  std::vector<StoreOp*> free_ops_;
  std::size_t n_puts_ = 0;  // queued or running, those held back too
  std::size_t n_gets_ = 0;
  std::size_t n_removers_ = 0;  // threads that wait until a key is free
  std::optional<Error> first_put_error_;
  std::uint64_t bytes_read_ = 0;
  std::uint64_t bytes_written_ = 0;

  std::vector<StoreOp*> held_;  // puts that the commit under way holds back
  bool committing_ = false;
  std::optional<std::uint64_t> committed_step_;
  std::optional<Error> poison_;         // why nothing can be promised any more
  std::atomic<bool> poisoned_ = false;  // the same, for those without the mutex

  std::deque<StoreLane> lanes_;                      // one per volume
  std::unique_ptr<SerialWorker<Commit>> committer_;  // null for scratch
};

}  // namespace castor

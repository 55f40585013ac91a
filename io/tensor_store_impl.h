// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include <castor/io/tensor_store.h>
#include <castor/memory/host_resource.h>

#include "serial_worker.h"
#include "store_piece.h"
#include "store_space.h"

namespace castor {

/// What lies under a key.
struct StoredValue {
  std::uint64_t n_bytes = 0;
  Placement place;
  std::vector<std::uint64_t> checksums;  ///< one per piece
};

/// One key. `value` and `lost` belong to the running put alone, or are read by the running gets: the order of `ops`
/// sees to it.
struct StoreEntry {
  std::optional<StoredValue> value;
  std::optional<Error> lost;  ///< why the last put left no value
  std::deque<std::unique_ptr<StoreOp>>
      ops;  ///< waiting and running, in the order of the calls; guarded by the store's mutex
};

/// One put or get under way.
struct StoreOp {
  enum class Kind : std::uint8_t { put, get };
  Kind kind = Kind::put;
  std::uint64_t key = 0;
  BufferView bytes;
  StoreEntry* entry = nullptr;
  std::shared_ptr<HostEventState> done;  ///< owners: this and the caller's event
  bool started = false;
  std::vector<StorePiece> pieces;
  std::size_t n_pending = 0;  ///< pieces that have not landed
  std::uint64_t moved_bytes = 0;
  std::optional<Error> error;
};

/// The way of an operation: `queue` (caller) → starter thread: `start`, `send` → engine → lander thread: `land`,
/// `finish`.
class TensorStore::Impl {
 public:
  Impl(bool checksums, std::unique_ptr<StoreSpace> space, std::unique_ptr<IoEngine> engine);
  ~Impl();

  Event queue(StoreOp::Kind kind, std::uint64_t key, BufferView bytes);
  void remove(std::uint64_t key);
  Result<void> drain();
  TensorStoreStats stats() const;
  const IoEngine& engine() const { return *engine_; }
  const StoreSpace& space() const { return *space_; }

 private:
  void start_those_whose_turn_it_is(StoreEntry& entry);

  void start(StoreOp& op);
  Result<void> place(StoreOp& op);
  Result<void> find(const StoreOp& op) const;
  void plan(StoreOp& op);
  void send(StoreOp& op, StorePiece& piece);

  void land(StorePiece& piece);
  Result<void> accept(StoreOp& op, StorePiece& piece);
  Result<void> verify(const StoreOp& op, const StorePiece& piece) const;

  void finish(StoreOp& op);
  void settle_put(StoreOp& op);
  void leave_queue(StoreOp& op);

  const bool checksums_;
  const std::unique_ptr<StoreSpace> space_;
  HostResource page_memory_;  // for padded copies; at most as many at a time as the engine takes requests, and those
                              // that wait for the lander

  mutable std::mutex mutex_;
  std::condition_variable op_ended_;
  std::unordered_map<std::uint64_t, StoreEntry> entries_;
  std::size_t n_active_ = 0;  // operations queued or running
  std::optional<Error> first_put_error_;
  std::uint64_t bytes_read_ = 0;
  std::uint64_t bytes_written_ = 0;

  // In this order: the starter feeds the engine, the engine the lander; each ends before what it feeds.
  SerialWorker<StorePiece*> lander_;
  std::unique_ptr<IoEngine> engine_;
  SerialWorker<StoreOp*> starter_;
};

}  // namespace castor

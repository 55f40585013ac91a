// SPDX-License-Identifier: Apache-2.0
#include "tensor_store_impl.h"

#include <algorithm>
#include <string>
#include <utility>

namespace castor {
namespace {

using Kind = StoreOp::Kind;

Error holds_nothing(std::uint64_t key) {
  return {ErrorKind::usage, "key " + std::to_string(key) + " holds nothing; put it first"};
}

}  // namespace

TensorStore::Impl::Impl(const TensorStoreOptions& options, StoreParts parts)
    : checksums_(options.checksums),
      durability_(options.durability),
      timeout_(options.timeout),
      parts_(std::move(parts)),
      set_(*parts_.set) {
  const StorePiece::Options pieces{checksums_, timeout_};
  for (std::size_t volume = 0; volume < set_.n_volumes(); ++volume) {
    IoEngine& engine = *parts_.engines[parts_.engine_of[volume]];
    lanes_.emplace_back(StoreLane::Parts{mutex_, set_, volume, engine, copy_memory_}, parts_.pieces_per_volume, pieces,
                        [this](StoreOp& op) { on_ended(op); });
  }
  if (durability_ == Durability::commit)
    committer_ = std::make_unique<SerialWorker<Commit>>("castor-commit", [this](Commit next) { run_commit(next); });
}

/// What lanes and pieces have must have come back from the engines, and their threads be gone, before those go.
TensorStore::Impl::~Impl() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return n_puts_ + n_gets_ == 0 && !committing_; });
  }
  committer_.reset();
  parts_.engines.clear();
}

// ---- the caller's thread ----

Event TensorStore::Impl::queue(Kind kind, std::uint64_t key, BufferView bytes,
                               std::span<const std::uint64_t> checksums) {
  OpsToStart turn;
  std::unique_lock lock(mutex_);
  StoreOp& op = new_op(kind, key, bytes);
  op.checksums.assign(checksums.begin(), checksums.end());
  Event done(op.done);
  op.entry = &values_[key];
  op.entry->ops.push_back(op);
  ++n_active(kind);
  op.held = committing_ && kind == Kind::put;
  if (op.held) held_.push_back(&op);
  collect_turns(*op.entry, turn);
  lock.unlock();
  launch_all(turn);
  return done;
}

/// Requires: mutex_ is held.
StoreOp& TensorStore::Impl::new_op(Kind kind, std::uint64_t key, BufferView bytes) {
  if (free_ops_.empty()) {
    StoreOp& made = ops_.emplace_back();
    made.next_block.resize(set_.n_volumes());
    free_ops_.push_back(&made);
  }
  StoreOp& op = *free_ops_.back();
  free_ops_.pop_back();
  op.kind = kind;
  op.key = key;
  op.bytes = bytes;
  op.done = events_.make();
  op.started = false;
  op.blocks.clear();
  op.moved_bytes = 0;
  op.error.reset();
  return op;
}

/// A put runs alone; gets run together until the next put. Requires: mutex_ is held.
void TensorStore::Impl::collect_turns(StoreEntry& entry, OpsToStart& turn) {
  for (StoreOp& op : entry.ops) {
    if (op.kind == Kind::put && (op.held || &op != &entry.ops.front())) return;
    if (!std::exchange(op.started, true)) turn.push_back(op);
    if (op.kind == Kind::put) return;
  }
}

void TensorStore::Impl::remove(std::uint64_t key) {
  std::unique_lock lock(mutex_);
  auto found = values_.end();
  ++n_removers_;
  changed_.wait(lock, [&] {
    found = values_.find(key);
    return !committing_ && (found == values_.end() || found->second.ops.empty());
  });
  --n_removers_;
  if (found == values_.end()) return;
  StoreEntry& entry = found->second;
  if (std::exchange(entry.value_is_durable, false)) entry.durable = std::exchange(entry.value, std::nullopt);
  entry.lost.reset();
  drop(key, entry.value);
  drop(key, entry.spare);
  if (entry.empty()) values_.erase(found);
}

Result<void> TensorStore::Impl::drain_puts() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return n_puts_ == 0; });
  const auto error = std::exchange(first_put_error_, std::nullopt);
  return error ? Result<void>(*error) : Result<void>();
}

void TensorStore::Impl::drain_gets() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return n_gets_ == 0; });
}

TensorStoreStats TensorStore::Impl::stats() const {
  const std::lock_guard lock(mutex_);
  return {bytes_read_, bytes_written_, set_.allocated_bytes(), set_.peak_allocated_bytes()};
}

std::vector<std::string> TensorStore::Impl::warnings() const {
  auto sentences = parts_.warnings;
  for (auto& sentence : set_.warnings()) sentences.push_back(std::move(sentence));
  return sentences;
}

std::vector<std::uint64_t> TensorStore::Impl::keys() const {
  std::vector<std::uint64_t> keys;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, entry] : values_)
    if (entry.value) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

Result<std::uint64_t> TensorStore::Impl::value_bytes(std::uint64_t key) const {
  const std::lock_guard lock(mutex_);
  const auto found = values_.find(key);
  if (found != values_.end() && found->second.value) return found->second.value->n_bytes;
  return holds_nothing(key);
}

std::uint64_t TensorStore::Impl::register_memory(BufferView bytes) {
  auto taken_bytes = bytes.n_bytes;
  for (const auto& engine : parts_.engines) taken_bytes = std::min(taken_bytes, engine->register_buffer(bytes));
  return taken_bytes;
}

void TensorStore::Impl::unregister_memory(BufferView bytes) {
  for (const auto& engine : parts_.engines) engine->unregister_buffer(bytes);
}

// ---- the start, on the caller's thread or behind the operation before ----

void TensorStore::Impl::launch_all(OpsToStart& turn) {
  while (!turn.empty()) {
    StoreOp& op = turn.front();
    turn.pop_front();
    launch(op, turn);
  }
}

void TensorStore::Impl::launch(StoreOp& op, OpsToStart& turn) {
  if (const auto ready = prepare(op); !ready.ok()) op.error = ready.error();
  if (op.blocks.empty()) return finish(op, turn);
  move_blocks(op);
}

/// Finds the value's place and what is to move.
Result<void> TensorStore::Impl::prepare(StoreOp& op) {
  CASTOR_TRY(op.kind == Kind::put ? place(op) : find(op));
  StoredValue& value = *op.entry->value;
  deal_blocks(value.place, value.n_bytes, set_.block_bytes(), op.blocks);
  if (op.kind == Kind::put && checksums_) value.checksums.resize(op.blocks.size());
  return {};
}

/// Finds room for the value: the old value's where that has the same. The old value is gone from here on, unless a
/// commit holds it.
Result<void> TensorStore::Impl::place(StoreOp& op) {
  CASTOR_ASSIGN(auto unsuited, make_way(op));
  drop(op.key, unsuited);
  std::optional<Placement> taken;
  if (!op.entry->value) {
    CASTOR_ASSIGN(taken, set_.take(op.key, op.bytes.n_bytes));
  }
  const std::lock_guard lock(mutex_);
  auto& value = op.entry->value;
  if (taken) value = StoredValue{0, std::move(*taken), {}};
  value->n_bytes = op.bytes.n_bytes;
  return {};
}

/// Leaves the entry with room that suits the new value, or with none; returns what does not.
Result<std::optional<StoredValue>> TensorStore::Impl::make_way(const StoreOp& op) {
  const std::lock_guard lock(mutex_);
  use_other_slot(*op.entry);  // first: a put that is refused must not cost what the last commit holds
  if (poison_) return *poison_;
  auto& value = op.entry->value;
  const bool suits = value && value_room_bytes(value->n_bytes) == value_room_bytes(op.bytes.n_bytes) &&
                     !set_.worth_moving(value->place);
  return suits ? std::nullopt : std::exchange(value, std::nullopt);
}

Result<void> TensorStore::Impl::find(const StoreOp& op) const {
  const StoreEntry& entry = *op.entry;
  if (entry.lost) return *entry.lost;
  if (!entry.value) return holds_nothing(op.key);
  if (entry.value->n_bytes == op.bytes.n_bytes) return {};
  return Error{ErrorKind::usage, "key " + std::to_string(op.key) + " holds " + std::to_string(entry.value->n_bytes) +
                                     " bytes, " + std::to_string(op.bytes.n_bytes) +
                                     " were asked for; ask for all of them"};
}

/// Gives the room of `value` back; where it is in doubt which commit stands, it may be that one's.
void TensorStore::Impl::drop(std::uint64_t key, std::optional<StoredValue>& value) {
  if (value && !poisoned_) set_.give_back(key, value->place);
  value.reset();
}

/// From here on the lanes have it: once the mutex is free, it may have ended.
void TensorStore::Impl::move_blocks(StoreOp& op) {
  const std::lock_guard lock(mutex_);
  op.n_pending = op.blocks.size();
  for (StoreLane& lane : lanes_) lane.add(op);
}

// ---- the end, on an engine's thread, or the starting one where nothing was to move ----

void TensorStore::Impl::on_ended(StoreOp& op) {
  OpsToStart turn;
  finish(op, turn);
  launch_all(turn);
}

void TensorStore::Impl::finish(StoreOp& op, OpsToStart& turn) {
  if (op.kind == Kind::put && op.error) give_up_value(op);
  const std::lock_guard lock(mutex_);
  if (op.kind == Kind::put) op.entry->lost = op.error;
  (op.kind == Kind::put ? bytes_written_ : bytes_read_) += op.moved_bytes;
  if (op.kind == Kind::put && op.error && !first_put_error_) first_put_error_ = op.error;
  std::exchange(op.done, nullptr)->complete(op.error ? Result<void>(*op.error) : Result<void>());
  --n_active(op.kind);
  const bool drained = op.kind == Kind::put ? n_puts_ == held_.size() : n_gets_ == 0;
  leave_queue(op, turn);
  if (drained || n_removers_ > 0) changed_.notify_all();  // not for every operation: each would wake who drains
}

/// A put that failed leaves no value behind. The file system is not called under the mutex.
void TensorStore::Impl::give_up_value(const StoreOp& op) {
  std::unique_lock lock(mutex_);
  auto lost = std::exchange(op.entry->value, std::nullopt);
  lock.unlock();
  drop(op.key, lost);
}

/// Requires: mutex_ is held. `op` is free afterwards.
void TensorStore::Impl::leave_queue(StoreOp& op, OpsToStart& turn) {
  StoreEntry& entry = *op.entry;
  entry.ops.erase(entry.ops.iterator_to(op));
  free_ops_.push_back(&op);
  collect_turns(entry, turn);
  if (entry.empty()) values_.erase(op.key);
}

}  // namespace castor

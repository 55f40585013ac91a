// SPDX-License-Identifier: Apache-2.0
#include "tensor_store_impl.h"

#include <algorithm>
#include <string>
#include <utility>

namespace castor {
namespace {

using Kind = StoreOp::Kind;

Error given_up(const StoreOp& op) {
  return {ErrorKind::io, "key " + std::to_string(op.key) + ": given up, because the store is being closed"};
}

}  // namespace

TensorStore::Impl::Impl(const TensorStoreOptions& options, StoreParts parts)
    : checksums_(options.checksums),
      read_only_(options.read_only),
      parts_(std::move(parts)),
      set_(*parts_.set),
      values_(monitor_.mutex, set_),
      ops_(set_.n_volumes()) {
  for (std::size_t volume = 0; volume < set_.n_volumes(); ++volume)
    lanes_.emplace_back(StoreLane::Parts{monitor_.mutex, set_, volume, parts_.engine(volume), copy_memory_},
                        parts_.pieces_per_volume, StorePiece::Options{checksums_, options.timeout},
                        [this](StoreOp& op) { on_ended(op); });
  if (options.durability == Durability::commit)
    committer_ =
        std::make_unique<StoreCommitter>(StoreCommitter::Parts{monitor_, values_, ops_, parts_},
                                         StoreCommitter::Options{checksums_, options.read_only, options.timeout},
                                         [this](OpsToStart& turn) { launch_all(turn); });
}

/// The committer's thread uses the engines, and their threads use lanes and pieces: each goes before the things it
/// uses.
TensorStore::Impl::~Impl() {
  {
    std::unique_lock lock(monitor_.mutex);
    monitor_.changed.wait(lock, [this] { return ops_.n_puts() + ops_.n_gets() == 0 && !ops_.barrier_up(); });
  }
  committer_.reset();
  parts_.engines.clear();
}

// ---- the caller's thread ----

Event TensorStore::Impl::queue(Kind kind, std::uint64_t key, BufferView bytes,
                               std::span<const std::uint64_t> checksums) {
  if (read_only_ && kind == Kind::put) throw ContractViolation("put in a store that was opened to read only");
  OpsToStart turn;
  std::unique_lock lock(monitor_.mutex);
  StoreOp& op = ops_.begin(kind, key, bytes, checksums);
  op.done = events_.make();
  Event done(op.done);
  op.entry = &values_.entry(key);
  op.entry->ops.push_back(op);
  op.entry->start_next(turn);
  lock.unlock();
  launch_all(turn);
  return done;
}

void TensorStore::Impl::remove(std::uint64_t key) {
  if (read_only_) throw ContractViolation("removal from a store that was opened to read only");
  std::unique_lock lock(monitor_.mutex);
  ++n_removers_;
  monitor_.changed.wait(lock, [&] { return !ops_.barrier_up() && values_.rests(key); });
  --n_removers_;
  values_.remove(key);
}

Result<void> TensorStore::Impl::drain_puts() {
  std::unique_lock lock(monitor_.mutex);
  monitor_.changed.wait(lock, [this] { return ops_.n_puts() == 0; });
  const auto error = std::exchange(first_put_error_, std::nullopt);
  return error ? Result<void>(*error) : Result<void>();
}

void TensorStore::Impl::drain_gets() {
  std::unique_lock lock(monitor_.mutex);
  monitor_.changed.wait(lock, [this] { return ops_.n_gets() == 0; });
}

void TensorStore::Impl::abandon() {
  std::vector<StoreOp*> ended;
  {
    const std::lock_guard lock(monitor_.mutex);
    abandoned_ = true;
    for (StoreLane& lane : lanes_) lane.abandon(given_up, ended);
  }
  for (StoreOp* op : ended) on_ended(*op);
}

Event TensorStore::Impl::commit(std::uint64_t step) {
  if (!committer_) throw ContractViolation("commit of a store that was opened as scratch");
  if (read_only_) throw ContractViolation("commit of a store that was opened to read only");
  auto state = events_.make();
  Event done(state);
  committer_->start(step, std::move(state));
  return done;
}

std::optional<std::uint64_t> TensorStore::Impl::committed_step() const {
  return committer_ ? committer_->committed_step() : std::nullopt;
}

TensorStoreStats TensorStore::Impl::stats() const {
  const std::lock_guard lock(monitor_.mutex);
  return {bytes_read_, bytes_written_, set_.allocated_bytes(), set_.peak_allocated_bytes()};
}

std::vector<std::string> TensorStore::Impl::warnings() const {
  auto sentences = parts_.warnings;
  for (auto& sentence : set_.warnings()) sentences.push_back(std::move(sentence));
  return sentences;
}

std::vector<std::uint64_t> TensorStore::Impl::keys() const {
  const std::lock_guard lock(monitor_.mutex);
  return values_.keys();
}

Result<std::uint64_t> TensorStore::Impl::value_bytes(std::uint64_t key) const {
  const std::lock_guard lock(monitor_.mutex);
  return values_.value_bytes(key);
}

std::uint64_t TensorStore::Impl::register_memory(BufferView bytes) {
  auto taken_bytes = bytes.n_bytes;
  for (const auto& engine : parts_.engines) taken_bytes = std::min(taken_bytes, engine->register_buffer(bytes));
  return taken_bytes;
}

void TensorStore::Impl::unregister_memory(BufferView bytes) {
  for (const auto& engine : parts_.engines) engine->unregister_buffer(bytes);
}

// ---- the start, on the caller's thread or on the one that ended the operation before ----

void TensorStore::Impl::launch_all(OpsToStart& turn) {
  while (!turn.empty()) {
    StoreOp& op = turn.front();
    turn.pop_front();
    launch(op, turn);
  }
}

void TensorStore::Impl::launch(StoreOp& op, OpsToStart& turn) {
  if (const auto ready = prepare(op); !ready.ok()) op.error = ready.error();
  if (op.blocks.empty() || !move_blocks(op)) finish(op, turn);
}

/// Finds the value's place and the blocks to move.
Result<void> TensorStore::Impl::prepare(StoreOp& op) {
  CASTOR_TRY(op.kind == Kind::put ? values_.place(op) : values_.find(op));
  StoredValue& value = *op.entry->value;
  deal_blocks(value.place, value.n_bytes, set_.block_bytes(), op.blocks);
  if (op.kind == Kind::put && checksums_) value.checksums.resize(op.blocks.size());
  return {};
}

/// Hands `op` to the lanes: once the mutex is free, it may have ended. False where the store is abandoned.
bool TensorStore::Impl::move_blocks(StoreOp& op) {
  const std::lock_guard lock(monitor_.mutex);
  if (abandoned_) return op.error = given_up(op), false;
  op.n_pending = op.blocks.size();
  for (StoreLane& lane : lanes_) lane.add(op);
  return true;
}

// ---- the end, on an engine's thread, or on the starting one where no block had to move ----

void TensorStore::Impl::on_ended(StoreOp& op) {
  OpsToStart turn;
  finish(op, turn);
  launch_all(turn);
}

void TensorStore::Impl::finish(StoreOp& op, OpsToStart& turn) {
  if (op.kind == Kind::put && op.error) values_.give_up(op);
  const std::lock_guard lock(monitor_.mutex);
  if (op.kind == Kind::put) op.entry->lost = op.error;
  (op.kind == Kind::put ? bytes_written_ : bytes_read_) += op.moved_bytes;
  if (op.kind == Kind::put && op.error && !first_put_error_) first_put_error_ = op.error;
  std::exchange(op.done, nullptr)->complete(op.error ? Result<void>(*op.error) : Result<void>());
  const bool drained = ops_.end(op);
  leave_queue(op, turn);
  if (drained || n_removers_ > 0) monitor_.changed.notify_all();  // not for every operation: it would wake the drains
}

/// Requires: the mutex is held.
void TensorStore::Impl::leave_queue(StoreOp& op, OpsToStart& turn) {
  StoreEntry& entry = *op.entry;
  entry.ops.erase(entry.ops.iterator_to(op));
  entry.start_next(turn);
  values_.drop_if_empty(op.key, entry);
}

}  // namespace castor

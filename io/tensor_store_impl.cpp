// SPDX-License-Identifier: Apache-2.0
#include "tensor_store_impl.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "checksum.h"

namespace castor {
namespace {

using Kind = StoreOp::Kind;

std::string hex(std::uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

std::string key_text(std::uint64_t key) { return "key " + std::to_string(key); }

}  // namespace

TensorStore::Impl::Impl(bool checksums, std::unique_ptr<StoreSpace> space, std::unique_ptr<IoEngine> engine)
    : checksums_(checksums),
      space_(std::move(space)),
      lander_("castor-land", [this](StorePiece* piece) { land(*piece); }),
      engine_(std::move(engine)),
      starter_("castor-start", [this](StoreOp* op) { start(*op); }) {}

TensorStore::Impl::~Impl() {
  std::unique_lock lock(mutex_);
  op_ended_.wait(lock, [this] { return n_active_ == 0; });
}

// ---- the caller's thread ----

Event TensorStore::Impl::queue(Kind kind, std::uint64_t key, BufferView bytes) {
  auto op = std::make_unique<StoreOp>();
  op->kind = kind;
  op->key = key;
  op->bytes = bytes;
  op->done = std::make_shared<HostEventState>();
  Event done(op->done);
  const std::lock_guard lock(mutex_);
  StoreEntry& entry = entries_[key];
  op->entry = &entry;
  entry.ops.push_back(std::move(op));
  ++n_active_;
  start_those_whose_turn_it_is(entry);
  return done;
}

/// A put runs alone; gets run together until the next put. Requires: mutex_ is held.
void TensorStore::Impl::start_those_whose_turn_it_is(StoreEntry& entry) {
  for (const auto& op : entry.ops) {
    const bool first = op == entry.ops.front();
    if (op->kind == Kind::put && !first) return;
    if (!std::exchange(op->started, true)) starter_.push(op.get());
    if (op->kind == Kind::put) return;
  }
}

void TensorStore::Impl::remove(std::uint64_t key) {
  std::unique_lock lock(mutex_);
  auto found = entries_.end();
  op_ended_.wait(lock, [&] {
    found = entries_.find(key);
    return found == entries_.end() || found->second.ops.empty();
  });
  if (found == entries_.end()) return;
  const auto value = std::move(found->second.value);
  entries_.erase(found);
  lock.unlock();
  if (value) space_->give_back(value->place);
}

Result<void> TensorStore::Impl::drain() {
  std::unique_lock lock(mutex_);
  op_ended_.wait(lock, [this] { return n_active_ == 0; });
  const auto error = std::exchange(first_put_error_, std::nullopt);
  return error ? Result<void>(*error) : Result<void>();
}

TensorStoreStats TensorStore::Impl::stats() const {
  const std::lock_guard lock(mutex_);
  return {bytes_read_, bytes_written_, space_->allocated_bytes(), space_->peak_allocated_bytes()};
}

// ---- the starter's thread ----

void TensorStore::Impl::start(StoreOp& op) {
  const auto ready = op.kind == Kind::put ? place(op) : find(op);
  if (!ready.ok()) op.error = ready.error();
  if (ready.ok()) plan(op);
  const auto n_pieces = op.pieces.size();
  if (n_pieces == 0) return finish(op);
  StorePiece* const pieces = op.pieces.data();
  for (std::size_t i = 0; i < n_pieces; ++i) send(op, pieces[i]);  // once the last is sent, op may be gone
}

/// Finds room for the value: the old value's where the size is the same. The old value is gone from here on.
Result<void> TensorStore::Impl::place(StoreOp& op) {
  auto& value = op.entry->value;
  if (value && value->place.extent.n_bytes != StoreSpace::whole_bytes(op.bytes.n_bytes)) {
    space_->give_back(value->place);
    value.reset();
  }
  if (!value) {
    CASTOR_ASSIGN(const Placement place, space_->take(op.key, op.bytes.n_bytes));
    value = StoredValue{0, place, {}};
  }
  value->n_bytes = op.bytes.n_bytes;
  return {};
}

Result<void> TensorStore::Impl::find(const StoreOp& op) const {
  const StoreEntry& entry = *op.entry;
  if (entry.lost) return *entry.lost;
  if (!entry.value) return Error{ErrorKind::usage, key_text(op.key) + " holds nothing; put it first"};
  if (entry.value->n_bytes == op.bytes.n_bytes) return {};
  return Error{ErrorKind::usage, key_text(op.key) + " holds " + std::to_string(entry.value->n_bytes) + " bytes, " +
                                     std::to_string(op.bytes.n_bytes) + " were asked for; ask for all of them"};
}

void TensorStore::Impl::plan(StoreOp& op) {
  const auto ranges = plan_pieces(op.bytes.n_bytes);
  op.pieces.reserve(ranges.size());
  for (const auto& range : ranges)
    op.pieces.emplace_back(op, op.pieces.size(), range, op.bytes.part(range.offset_bytes, range.n_bytes), lander_);
  op.n_pending = ranges.size();
  if (op.kind == Kind::put) op.entry->value->checksums.resize(ranges.size());
}

void TensorStore::Impl::send(StoreOp& op, StorePiece& piece) {
  StoredValue& value = *op.entry->value;
  const DirectFile& file = space_->file(value.place);
  const auto staged = piece.stage(file.memory_align_bytes(), page_memory_);
  if (!staged.ok()) return piece.fail(staged.error());
  const auto offset_bytes = value.place.extent.offset_bytes + piece.range().offset_bytes;
  if (op.kind == Kind::get) return engine_->start(piece.sent(file.read_request(offset_bytes, *staged)), piece);
  piece.fill_staged();
  if (checksums_) value.checksums[piece.index()] = checksum(piece.bytes());
  engine_->start(piece.sent(file.write_request(offset_bytes, *staged)), piece);
}

// ---- the lander's thread ----

void TensorStore::Impl::land(StorePiece& piece) {
  StoreOp& op = piece.op();
  const auto accepted = accept(op, piece);
  if (!accepted.ok() && !op.error)
    op.error = Error{accepted.error().kind, key_text(op.key) + ": " + accepted.error().message};
  piece.drop_staged();
  if (--op.n_pending == 0) finish(op);
}

Result<void> TensorStore::Impl::accept(StoreOp& op, StorePiece& piece) {
  CASTOR_ASSIGN(const std::uint64_t moved_bytes, piece.moved_bytes());
  op.moved_bytes += moved_bytes;
  if (op.kind == Kind::put) return {};
  piece.empty_staged();
  return checksums_ ? verify(op, piece) : Result<void>();
}

Result<void> TensorStore::Impl::verify(const StoreOp& op, const StorePiece& piece) const {
  const auto want = op.entry->value->checksums[piece.index()];
  const auto have = checksum(piece.bytes());
  if (have == want) return {};
  return Error{ErrorKind::io, "the " + std::to_string(piece.range().n_bytes) + " bytes at offset " +
                                  std::to_string(piece.range().offset_bytes) + " of the value, read from " +
                                  space_->file(op.entry->value->place).path() +
                                  ", are not those that were put (xxh3-64 " + hex(have) + " instead of " + hex(want) +
                                  "); the drive corrupts data: name a folder on another"};
}

// ---- the end, on either thread ----

void TensorStore::Impl::finish(StoreOp& op) {
  if (op.kind == Kind::put) settle_put(op);
  const std::lock_guard lock(mutex_);
  (op.kind == Kind::put ? bytes_written_ : bytes_read_) += op.moved_bytes;
  if (op.kind == Kind::put && op.error && !first_put_error_) first_put_error_ = op.error;
  op.done->complete(op.error ? Result<void>(*op.error) : Result<void>());
  leave_queue(op);
  --n_active_;
  op_ended_.notify_all();
}

/// A put that failed leaves no value behind, and its room is free again.
void TensorStore::Impl::settle_put(StoreOp& op) {
  StoreEntry& entry = *op.entry;
  entry.lost = op.error;
  if (!op.error || !entry.value) return;
  space_->give_back(entry.value->place);
  entry.value.reset();
}

/// Requires: mutex_ is held. `op` is gone afterwards.
void TensorStore::Impl::leave_queue(StoreOp& op) {
  const auto key = op.key;
  StoreEntry& entry = *op.entry;
  entry.ops.erase(
      std::find_if(entry.ops.begin(), entry.ops.end(), [&op](const auto& other) { return other.get() == &op; }));
  start_those_whose_turn_it_is(entry);
  if (entry.ops.empty() && !entry.value && !entry.lost) entries_.erase(key);
}

}  // namespace castor

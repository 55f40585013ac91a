// SPDX-License-Identifier: Apache-2.0
#include "store_lane.h"

#include <utility>

#include <castor/memory/clock.h>

namespace castor {
namespace {

constexpr std::size_t index(StoreOp::Kind kind) { return static_cast<std::size_t>(kind); }

}  // namespace

StoreLane::StoreLane(const Parts& parts, std::size_t n_pieces, const StorePiece::Options& options, OnEnded on_ended)
    : parts_(parts), on_ended_(std::move(on_ended)), measures_(parts.set.n_volumes() > 1) {
  const DirectFile& file = parts_.set.file(parts_.volume);
  idle_.reserve(n_pieces);
  for (std::size_t i = 0; i < n_pieces; ++i)
    idle_.push_back(&pieces_.emplace_back(*this, file, parts_.memory, options));
  parts_.engine.register_file(file.fd());
}

void StoreLane::add(StoreOp& op) {
  op.next_block[parts_.volume] = 0;
  skip_to_own_block(op);
  if (!has_block(op)) return;
  Queue& queue = queues_[index(op.kind)];
  if (queue.full()) queue.set_capacity(2 * queue.capacity());
  queue.push_back(&op);
  while (!idle_.empty() && next_queue() != nullptr) {
    StorePiece* piece = idle_.back();
    idle_.pop_back();
    parts_.engine.start(*next_request(*piece), *piece);
  }
}

void StoreLane::abandon(const std::function<Error(const StoreOp&)>& reason, std::vector<StoreOp*>& ended) {
  for (Queue& queue : queues_)
    while (!queue.empty()) {
      StoreOp& op = *queue.front();
      (void)take_block(queue);
      if (settle(op, 0, reason(op))) ended.push_back(&op);
    }
  for (const StorePiece& piece : pieces_) parts_.engine.cancel(piece);
}

void StoreLane::skip_to_own_block(StoreOp& op) const {
  auto& next = op.next_block[parts_.volume];
  while (next < op.blocks.size() && op.blocks[next].volume != parts_.volume) ++next;
}

/// The queue of the waiting kind that has fewer pieces moving; null where none waits.
StoreLane::Queue* StoreLane::next_queue() {
  auto& [puts, gets] = queues_;
  if (puts.empty() || gets.empty()) return !puts.empty() ? &puts : !gets.empty() ? &gets : nullptr;
  return n_moving_[0] <= n_moving_[1] ? &puts : &gets;
}

/// Takes the next block on this volume of the first operation, and the operation out of the queue with its last one.
std::size_t StoreLane::take_block(Queue& queue) {
  StoreOp& op = *queue.front();
  const std::size_t taken = op.next_block[parts_.volume]++;
  skip_to_own_block(op);
  if (!has_block(op)) queue.pop_front();
  return taken;
}

/// Gives `piece` the next block; null where there is none, and then the piece is idle. Requires: the mutex is held.
const IoRequest* StoreLane::next_request(StorePiece& piece) {
  Queue* const queue = next_queue();
  if (queue == nullptr) return idle_.push_back(&piece), nullptr;
  StoreOp& op = *queue->front();
  const auto& request = piece.take(op, take_block(*queue));
  ++n_moving_[index(op.kind)];
  if (measures_) parts_.set.started(parts_.volume, steady_now_ns());
  return &request;
}

std::optional<IoRequest> StoreLane::landed(StorePiece& piece, std::uint64_t moved_bytes, std::optional<Error> error) {
  StoreOp& op = piece.op();
  if (measures_) parts_.set.ended(parts_.volume, moved_bytes, steady_now_ns());
  if (error) error = explain(op, *error);
  std::unique_lock lock(parts_.mutex);
  --n_moving_[index(op.kind)];
  if (settle(op, moved_bytes, error)) {
    lock.unlock();
    on_ended_(op);
    lock.lock();
  }
  // Only now may the piece become idle: it still has its place in the engine, and on_ended_ may start idle pieces on
  // this thread, which would wait for that place for ever.
  const IoRequest* request = next_request(piece);
  return request ? std::optional(*request) : std::nullopt;
}

/// Counts a block of `op` as moved; true where it was the last. Requires: the mutex is held.
bool StoreLane::settle(StoreOp& op, std::uint64_t moved_bytes, const std::optional<Error>& error) const {
  op.moved_bytes += moved_bytes;
  if (error && !op.error) op.error = error;
  return --op.n_pending == 0;
}

/// Adds the key of the value, and the other keys on the volume that failed.
Error StoreLane::explain(const StoreOp& op, const Error& error) const {
  std::string message = "key " + std::to_string(op.key) + ": " + error.message;
  if (error.kind != ErrorKind::io) return {error.kind, message};
  const DirectFile& file = parts_.set.file(parts_.volume);
  return {error.kind, message + " (" + file.path() + " " + parts_.set.held_text(parts_.volume) + ")"};
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "store_ops.h"

#include "store_entry.h"

namespace castor {

StoreOp& StoreOps::unused() {
  if (free_.empty()) {
    StoreOp& made = ops_.emplace_back();
    made.next_block.resize(n_volumes_);
    return made;
  }
  StoreOp& op = *free_.back();
  free_.pop_back();
  return op;
}

StoreOp& StoreOps::begin(StoreOp::Kind kind, std::uint64_t key, BufferView bytes,
                         std::span<const std::uint64_t> checksums) {
  StoreOp& op = unused();
  const bool held = barrier_up_ && kind == StoreOp::Kind::put;
  op.kind = kind;
  op.stage = held ? StoreOp::Stage::held : StoreOp::Stage::waiting;
  op.key = key;
  op.bytes = bytes;
  op.blocks.clear();
  op.checksums.assign(checksums.begin(), checksums.end());
  op.moved_bytes = 0;
  op.error.reset();
  ++n_of(kind);
  if (held) held_.push_back(&op);
  return op;
}

bool StoreOps::end(StoreOp& op) {
  --n_of(op.kind);
  free_.push_back(&op);
  return op.kind == StoreOp::Kind::put ? puts_rest() : n_gets_ == 0;
}

void StoreOps::lift_barrier(OpsToStart& turn) {
  barrier_up_ = false;
  for (StoreOp* op : held_) op->stage = StoreOp::Stage::waiting;
  for (StoreOp* op : held_) op->entry->start_next(turn);
  held_.clear();
}

}  // namespace castor

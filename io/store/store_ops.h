// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include <castor/memory/buffer.h>

#include "store_op.h"

namespace castor {

/// The operations under way, and the barrier that a commit puts between the puts before it and those after it.
///
/// Invariant: while the barrier is up every put that begins is held; once `puts_rest` no put runs until it is lifted.
/// Threads: under the store's mutex.
class StoreOps {
 public:
  explicit StoreOps(std::size_t n_volumes) : n_volumes_(n_volumes) {}

  /// A new operation, counted. Allocates nothing where one that has ended can be used again.
  StoreOp& begin(StoreOp::Kind kind, std::uint64_t key, BufferView bytes, std::span<const std::uint64_t> checksums);
  /// `op` has ended and may be used again. True where it was the last of its kind, held puts aside.
  bool end(StoreOp& op);

  /// Requires: the barrier is not up.
  void raise_barrier() { barrier_up_ = true; }
  bool barrier_up() const { return barrier_up_; }
  /// Appends the held puts whose turn it is to `turn`.
  void lift_barrier(OpsToStart& turn);

  /// Queued or running; held puts too.
  std::size_t n_puts() const { return n_puts_; }
  std::size_t n_gets() const { return n_gets_; }
  bool puts_rest() const { return n_puts_ == held_.size(); }

 private:
  StoreOp& unused();
  std::size_t& n_of(StoreOp::Kind kind) { return kind == StoreOp::Kind::put ? n_puts_ : n_gets_; }

  const std::size_t n_volumes_;
  std::deque<StoreOp> ops_;
  std::vector<StoreOp*> free_;
  std::vector<StoreOp*> held_;
  std::size_t n_puts_ = 0;
  std::size_t n_gets_ = 0;
  bool barrier_up_ = false;
};

}  // namespace castor

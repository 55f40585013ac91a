// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <vector>

#include <castor/io/tensor_store.h>

#include "cases.h"
#include "bench/common/shares.h"

namespace castor::bench {

/// Puts and gets tensors of one size with a fixed number in flight, each in the least recently used part of one buffer.
///
/// The parts hold the bytes of fill_pattern, so that no drive can compress them. With `verify` each put writes new
/// contents and each get is compared byte by byte; the figures include that time.
///
/// Threads: one at a time.
class StoreDriver {
 public:
  struct Shape {
    std::uint64_t tensor_bytes = 0;
    std::uint64_t n_tensors = 0;
    std::size_t n_in_flight = 0;
    bool random = false;
    bool verify = false;
    std::uint64_t memory_bytes = 0;  ///< to move in, if it is more than the minimum
  };

  /// Bytes of memory that `shape` needs: each part begins at a whole page.
  static std::uint64_t memory_bytes(const Shape& shape);

  /// `store` and `memory` are borrowed; once `stopped` returns true, no further put or get starts.
  /// Requires: memory of memory_bytes (ContractViolation).
  StoreDriver(TensorStore& store, const Shape& shape, BufferView memory, std::function<bool()> stopped);

  /// Puts every tensor once, in order. Errors: those of the store.
  Result<Sample> fill();
  /// Gets every tensor once, in order. Requires: filled. Errors: those of the store; io if `verify` finds a different
  /// byte.
  Result<Sample> read_all();
  /// Runs for `seconds`, then waits for the operations in flight. Requires and errors: as read_all.
  Result<Sample> run(Rw rw, double seconds);

 private:
  struct Slot {
    BufferView bytes;
    Event done;
    bool busy = false;
    bool reads = false;
    std::uint64_t key = 0;
    std::uint64_t version = 0;  ///< of the key's contents
    std::uint64_t turn = 0;     ///< in the order of the starts
  };
  /// When to start no more operations.
  struct Limit {
    std::uint64_t n_tensors = 0;  ///< 0 = by time
    double seconds = 0;
  };

  Result<Sample> drive(Rw rw, bool random, const Limit& limit);
  Result<void> move_until(Rw rw, bool random, const std::function<bool()>& over);
  Result<void> take_landed(const std::function<void(Slot&)>& restart);
  void start(Slot& slot, Rw rw, bool random);
  std::uint64_t next_key(bool reads, bool random);
  Slot* next_awaited();
  Result<void> finish(Slot& slot);
  Result<void> settle();

  TensorStore& store_;
  const Shape shape_;
  const std::function<bool()> stopped_;
  std::vector<Slot> slots_;
  std::deque<BufferView> parts_;         ///< parts of the memory that no operation uses, least recently used first
  std::vector<std::uint32_t> versions_;  ///< of each key; only with `verify`
  std::mt19937_64 random_;
  std::uint64_t next_key_[2] = {0, 0};  ///< of the gets and of the puts
  std::uint64_t n_started_ = 0;
  std::uint64_t moved_bytes_ = 0;
};

}  // namespace castor::bench

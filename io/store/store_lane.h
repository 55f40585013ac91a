// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/circular_buffer.hpp>

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include <castor/io/io_engine.h>

#include "store_piece.h"
#include "stripes/stripe_set.h"

namespace castor {

/// The queue of one volume: the operations that have blocks for it and the pieces that move them. While there are
/// blocks to move every piece is busy, and keeps its place in the engine from one block to the next. Puts are served in
/// their order, and so are gets; where both wait, each has half of the pieces, since many drives read and write at
/// once.
///
/// Threads: add under the store's mutex; landed on the engine's threads.
class StoreLane final : public PieceSource {
 public:
  struct Parts {
    std::mutex& mutex;  ///< the store's: guards the queue and the counts in the operations
    StripeSet& set;
    std::size_t volume;
    IoEngine& engine;
    MemoryResource& memory;  ///< for bounce copies: at most one block per piece
  };
  /// Called without the mutex after the last block of an operation.
  using OnEnded = std::function<void(StoreOp&)>;

  /// The engine must have a place for each of the `n_pieces` beside those of its other users, so that `add` never
  /// waits, and must be destroyed before the lane.
  StoreLane(const Parts& parts, std::size_t n_pieces, const StorePiece::Options& options, OnEnded on_ended);
  StoreLane(const StoreLane&) = delete;
  StoreLane& operator=(const StoreLane&) = delete;

  /// Queues the blocks of `op` on this volume, and starts idle pieces. Requires: the mutex is held.
  void add(StoreOp& op);

  /// Ends the blocks that wait, with the error that `reason` gives for their operation, and cancels the requests of the
  /// pieces. Adds the operations that have ended with that to `ended`. Requires: the mutex is held.
  void abandon(const std::function<Error(const StoreOp&)>& reason, std::vector<StoreOp*>& ended);

  std::optional<IoRequest> landed(StorePiece& piece, std::uint64_t moved_bytes, std::optional<Error> error) override;

 private:
  const IoRequest* next_request(StorePiece& piece);
  using Queue = boost::circular_buffer<StoreOp*>;

  Queue* next_queue();
  std::size_t take_block(Queue& queue);
  void skip_to_own_block(StoreOp& op) const;
  bool has_block(const StoreOp& op) const { return op.next_block[parts_.volume] < op.blocks.size(); }
  bool settle(StoreOp& op, std::uint64_t moved_bytes, const std::optional<Error>& error) const;
  Error explain(const StoreOp& op, const Error& error) const;

  const Parts parts_;
  const OnEnded on_ended_;
  std::deque<StorePiece> pieces_;
  std::vector<StorePiece*> idle_;
  std::array<Queue, 2> queues_ = {Queue(64), Queue(64)};  ///< by StoreOp::Kind
  std::array<std::size_t, 2> n_moving_{};                 ///< pieces that move a block, likewise
  const bool measures_;  ///< shares depend on rates where there is more than one volume
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>

#include <castor/chunk/chunk.h>
#include <castor/chunk/link_bytes.h>
#include <castor/memory/event.h>
#include <castor/memory/timeline.h>

namespace castor {

/// The moves that are under way on each lane, and the bytes that all moves together put on each link. A move enters the
/// timeline once it has ended.
///
/// Threads: one thread at a time.
class MoveLog {
 public:
  /// `timeline` is borrowed and must outlive the log.
  explicit MoveLog(Timeline& timeline) : timeline_(timeline) {}

  /// Starts a move by `start`, which returns the event of the move's end; returns that event. Requires: `lane` is that
  /// of a link (ContractViolation).
  template <typename Start>
  Event start(Lane lane, ChunkId chunk, std::uint64_t n_bytes, const Start& start) {
    std::uint64_t& moved_bytes = bytes_of(lane);
    const std::uint64_t start_ns = timeline_.now_ns();
    Event done = start();
    under_way_[index(lane)].push_back({lane, chunk, start_ns, n_bytes, done});
    moved_bytes += n_bytes;
    return done;
  }

  /// Enters the moves that have ended into the timeline. Cost: a lane ends its moves about in the order of their
  /// starts, so only the oldest is asked; with hundreds under way, asking all of them took longer than the moment.
  void record_ended();

  /// Moves count from their start.
  const LinkBytes& moved() const { return moved_; }

 private:
  struct Move {
    Lane lane;
    ChunkId chunk;
    std::uint64_t start_ns;
    std::uint64_t n_bytes;
    Event done;
  };

  std::uint64_t& bytes_of(Lane lane);
  void record(const Move& move);

  Timeline& timeline_;
  std::array<std::deque<Move>, kNLanes> under_way_;  ///< by lane, in the order of their starts
  std::array<std::uint64_t, kNLanes> last_end_ns_{};
  LinkBytes moved_;
};

}  // namespace castor

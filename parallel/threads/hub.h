// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include <castor/parallel/communicator.h>

namespace castor {

enum class Collective : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, barrier };

/// `all_reduce`, `reduce_scatter`, …
const char* name(Collective collective);

/// One rank's arguments to a collective. Fields that the collective does not use keep their defaults.
struct Call {
  Collective collective = Collective::barrier;
  BufferView input;
  BufferView output;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
};

/// The meeting point of the ranks of one process. A collective is one round: every rank brings its call (`meet`), then
/// all may read and write each other's bytes as their collective shares the work out, then all part (`part`), and only
/// then a rank may touch its bytes alone.
///
/// A failure is permanent: every rank that waits or calls later gets it. A round that all ranks have agreed on is still
/// run to its end, so no rank waits for ever in `part`. Threads: each rank one at a time; fail and status from any.
class Hub {
 public:
  explicit Hub(int world_size) : calls_(static_cast<std::size_t>(world_size)) {}

  /// Blocks until every rank has brought its call. Errors: the hub's failure; usage where the calls differ.
  /// After success `part` must follow.
  Result<void> meet(int rank, const Call& call);
  /// All calls of the round, by rank. Valid between meet and part.
  const std::vector<Call>& calls() const { return calls_; }
  /// Blocks until every rank is done with the round.
  void part();

  /// Breaks the hub, unless it already is.
  void fail(Error error);
  Result<void> status() const;

 private:
  Result<void> agreement() const;
  int world_size() const { return static_cast<int>(calls_.size()); }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Call> calls_;     // written under mutex_ before a round is met, read without it until the ranks part
  Result<void> failure_;        // guarded by mutex_, as all below
  Result<void> round_outcome_;  // of the last round that was met
  int n_met_ = 0, n_parted_ = 0;
  std::uint64_t n_rounds_met_ = 0, n_rounds_parted_ = 0;
};

}  // namespace castor

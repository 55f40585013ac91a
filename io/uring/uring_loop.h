// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/circular_buffer.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <optional>
#include <vector>

#include <castor/io/io_engine.h>

#include "engine/transfer_queue.h"
#include "uring/errands.h"
#include "uring/ring_queue.h"
#include "uring/wake_up.h"

namespace castor {

/// The loop of the ring's thread: takes the requests that callers have queued, keeps the kernel supplied with them, and
/// calls their sinks.
///
/// A request passes four lists: `fresh_` (queued), `ready_` (on_start was called), the kernel's, `landed_` (on_complete
/// is to be called). The loop calls sinks for a short while at a time, and in between the kernel gets the ready
/// requests.
///
/// Invariant: a request is in one list; the kernel has as many as it may, as long as there are that many.
/// Threads: the ring's, but for the constructor and `ring().details()`.
class UringLoop {
 public:
  /// Gets each answer of the kernel to a transfer, and returns the one to act on. For tests.
  using AnswerFilter = std::function<int(int answer)>;
  /// The requests and errands of other threads for this one.
  struct Inbox {
    TransferQueue& queue;
    WakeUp& wake_up;
    Errands& errands;
  };

  UringLoop(const IoEngineOptions& options, const Inbox& inbox, AnswerFilter filter);

  /// Opens the ring, says in `set_up` whether that worked (else why not), and works until the queue is stopped and
  /// every request has ended.
  void run(std::promise<Result<void>>& set_up);
  RingQueue& ring() { return ring_; }
  const RingQueue& ring() const { return ring_; }

 private:
  bool take_new();
  void call_back();
  bool has_work() const { return !fresh_.empty() || !landed_.empty(); }
  bool idle() const { return n_in_ring_ == 0 && !has_work() && ready_.empty() && postponed_.empty(); }
  void fill_kernel();
  void work();
  void begin(Transfer* transfer);
  void finish(Transfer* transfer);
  void ask(Transfer* transfer);
  void on_answer(Transfer* transfer, int answer);
  void postpone(Transfer* transfer);
  void retry_postponed();
  std::optional<std::chrono::nanoseconds> longest_sleep() const;

  using Line = boost::circular_buffer<Transfer*>;

  const Inbox inbox_;
  const AnswerFilter filter_;
  const std::size_t kernel_depth_;
  RingQueue ring_;
  std::size_t n_in_ring_ = 0;  ///< transfers the kernel has
  Line fresh_;
  Line ready_;
  Line landed_;
  std::vector<Transfer*> postponed_;  ///< tried again at retry_at_
  std::chrono::steady_clock::time_point retry_at_;

  // Filled and emptied within one function, kept for their memory:
  std::vector<Transfer*> taken_;
  std::vector<Transfer*> recalled_waiting_;
  std::vector<Transfer*> recalled_running_;
};

}  // namespace castor

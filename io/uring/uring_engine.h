// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <castor/io/io_engine.h>
#include <castor/io/unique_fd.h>

#include "transfer_queue.h"
#include "uring/ring.h"

namespace castor {

/// The engine on io_uring: one thread owns the ring, takes what has been queued, submits it in one call and reaps what
/// has ended.
///
/// Invariant: at most kNPlaces requests and one read of the wake-up counter are in the ring, which has twice as many
/// entries: a submission always finds one. The thread sleeps in the kernel for a completion; a caller wakes it through
/// an eventfd, but only the first after it went to sleep pays that call.
class UringEngine final : public IoEngine {
 public:
  /// Looks at each answer of the kernel to a transfer, and gives the one to act on. For tests.
  using AnswerFilter = std::function<int(int answer)>;

  /// Errors: io, why the ring cannot be had.
  static Result<std::unique_ptr<IoEngine>> make(AnswerFilter filter = {});
  ~UringEngine() override;

  std::string_view name() const override { return "io_uring"; }
  void start(const IoRequest& request, IoSink& sink) override;

 private:
  UringEngine(UniqueFd wake_fd, AnswerFilter filter);
  void wake();

  // The ring's thread:
  void run(std::promise<Result<void>>& set_up);
  bool take_new();
  void arm_wake_up();
  void prepare(Transfer* transfer);
  void submit_and_wait();
  void reap();
  void on_answer(Transfer* transfer, int answer);
  void postpone(Transfer* transfer);
  void retry_postponed();

  TransferQueue queue_;
  UniqueFd wake_fd_;
  const AnswerFilter filter_;

  // Members of the ring's thread:
  std::optional<Ring> ring_;
  std::uint64_t wake_count_ = 0;  ///< where the kernel puts the eventfd's value
  bool wake_up_armed_ = false;
  std::size_t n_in_ring_ = 0;  ///< transfers the kernel has
  std::vector<Transfer*> taken_;
  std::vector<Transfer*> postponed_;  ///< answered by EAGAIN: tried again after a pause
  std::chrono::steady_clock::time_point retry_at_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/circular_buffer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <castor/io/io_engine.h>

#include "engine/transfer_queue.h"
#include "uring/errands.h"
#include "uring/ring.h"
#include "uring/ring_slots.h"
#include "uring/wake_up.h"

namespace castor {

/// The engine on io_uring: one thread owns the ring, takes what has been queued, submits it in one call and reaps what
/// has ended.
///
/// A request comes by four lists: `fresh_` (queued), `ready_` (its sink was told of the start), the kernel's, `landed_`
/// (its sink is to be told of the end). What sinks compute is done bit by bit, and between two bits the kernel gets what
/// is ready: it always has as many requests as it may, as long as there are that many.
///
/// Invariant: in the ring are at most one entry per place, one call-back for each, and one read of the wake-up counter;
/// the completion queue has four times as many entries as there are places: it cannot overflow. The thread sleeps in
/// the kernel for a completion; a caller wakes it through an eventfd, but only the first after it went to sleep pays
/// that call. A ring that polls takes no eventfd: its thread asks for completions without sleeping while there are
/// any to come, and sleeps in a read of the eventfd while there are none.
class UringEngine final : public IoEngine {
 public:
  /// Looks at each answer of the kernel to a transfer, and gives the one to act on. For tests.
  using AnswerFilter = std::function<int(int answer)>;

  /// Errors: io, why the ring cannot be had.
  static Result<std::unique_ptr<IoEngine>> make(const IoEngineOptions& options, AnswerFilter filter = {});
  ~UringEngine() override;

  std::string_view name() const override { return "io_uring"; }
  std::size_t depth() const override { return queue_.n_places(); }
  std::string details() const override;
  void start(const IoRequest& request, IoSink& sink) override;
  void cancel(const IoSink& sink) override;
  void register_file(int fd) override;
  void unregister_file(int fd) override;
  std::uint64_t register_buffer(BufferView bytes) override;
  void unregister_buffer(BufferView bytes) override;

 private:
  UringEngine(const IoEngineOptions& options, WakeUp wake_up, AnswerFilter filter);
  void on_ring_thread(const std::function<void()>& errand);

  // The ring's thread:
  void run(std::promise<Result<void>>& set_up);
  Result<void> open_ring();
  bool take_new();
  void call_back();
  void arm_wake_up();
  bool has_work() const { return !fresh_.empty() || !landed_.empty(); }
  bool idle() const { return n_in_ring_ == 0 && !has_work() && ready_.empty() && postponed_.empty(); }
  void fill_kernel();
  void work();
  void begin(Transfer* transfer);
  void finish(Transfer* transfer);
  void ask(Transfer* transfer);
  void fill_in(io_uring_sqe* sqe, const TransferPart& part) const;
  void submit();
  void submit_and_wait();
  void reap();
  void on_answer(Transfer* transfer, int answer);
  void postpone(Transfer* transfer);
  void retry_postponed();
  void stop_polling();
  std::optional<std::chrono::nanoseconds> longest_sleep() const;

  using Line = boost::circular_buffer<Transfer*>;

  TransferQueue queue_;
  WakeUp wake_up_;
  const AnswerFilter filter_;

  Errands errands_;

  mutable std::mutex details_mutex_;
  std::string details_;

  // Members of the ring's thread:
  RingOptions ring_options_;
  std::optional<Ring> ring_;
  RingSlots slots_;
  const std::size_t kernel_depth_;
  std::size_t n_in_ring_ = 0;  ///< transfers the kernel has
  Line fresh_;
  Line ready_;
  Line landed_;
  std::vector<Transfer*> taken_;
  std::vector<Transfer*> recalled_waiting_;
  std::vector<Transfer*> recalled_running_;
  std::vector<Transfer*> postponed_;  ///< tried again after a pause
  std::chrono::steady_clock::time_point retry_at_;
  bool polling_refused_ = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include <castor/io/io_engine.h>

#include "engine/transfer_queue.h"
#include "uring/errands.h"
#include "uring/uring_loop.h"
#include "uring/wake_up.h"

namespace castor {

/// The engine on io_uring: one thread owns the ring (UringLoop); callers leave requests and errands for it.
///
/// The thread sleeps in the kernel for a completion; a caller wakes it through an eventfd, but only the first after it
/// went to sleep pays that call. A ring that polls takes no eventfd: its thread asks for completions without sleeping
/// while the kernel has requests, and sleeps in a read of the eventfd while there is no work.
class UringEngine final : public IoEngine {
 public:
  using AnswerFilter = UringLoop::AnswerFilter;

  /// Errors: io, why the ring cannot be had.
  static Result<std::unique_ptr<IoEngine>> make(const IoEngineOptions& options, AnswerFilter filter = {});
  ~UringEngine() override;

  std::string_view name() const override { return "io_uring"; }
  std::size_t depth() const override { return queue_.n_places(); }
  std::string details() const override { return loop_.ring().details(); }
  void start(const IoRequest& request, IoSink& sink) override;
  void cancel(const IoSink& sink) override;
  void register_file(int fd) override;
  void unregister_file(int fd) override;
  std::uint64_t register_buffer(BufferView bytes) override;
  void unregister_buffer(BufferView bytes) override;

 private:
  UringEngine(const IoEngineOptions& options, WakeUp wake_up, AnswerFilter filter);
  void on_ring_thread(const std::function<void()>& errand);

  TransferQueue queue_;
  WakeUp wake_up_;
  Errands errands_;
  UringLoop loop_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace castor

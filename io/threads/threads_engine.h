// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <castor/io/io_engine.h>

#include "transfer_queue.h"

namespace castor {

/// One blocking call; returns the bytes moved or a negative errno. Tests put a scripted one in its place.
using BlockingCall = std::function<std::int64_t(const TransferPart&)>;

/// pread, pwrite and fdatasync.
std::int64_t call_kernel(const TransferPart& part);

/// The engine that works everywhere: a few threads with blocking calls, each taking one request at a time through to
/// its end.
class ThreadsEngine final : public IoEngine {
 public:
  /// Enough for a drive to have work while one thread is between two calls.
  static constexpr int kNThreads = 4;

  explicit ThreadsEngine(std::string fallback_reason, BlockingCall call = call_kernel);
  ~ThreadsEngine() override;

  std::string_view name() const override { return "threads"; }
  std::string fallback_reason() const override { return fallback_reason_; }
  void start(const IoRequest& request, IoSink& sink) override { queue_.push(request, sink); }

 private:
  void run();
  void carry_out(Transfer& transfer);

  const std::string fallback_reason_;
  const BlockingCall call_;
  TransferQueue queue_;
  std::vector<std::thread> threads_;
};

}  // namespace castor

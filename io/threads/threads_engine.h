// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <castor/io/io_engine.h>

#include "engine/transfer_queue.h"

namespace castor {

/// One blocking call; returns the bytes moved or a negative errno. Tests replace it by a scripted one.
using BlockingCall = std::function<std::int64_t(const TransferPart&)>;

/// preadv2, pwritev2 and fdatasync.
std::int64_t call_kernel(const TransferPart& part);

/// The engine that works everywhere: a few threads with blocking calls, each of which runs one request at a time to its
/// end. One more thread ends recalled requests that wait; a call that blocks cannot be called back.
class ThreadsEngine final : public IoEngine {
 public:
  /// The name and fallback reason that the engine returns.
  struct Identity {
    std::string_view name;
    std::string fallback_reason;
  };

  ThreadsEngine(const IoEngineOptions& options, Identity identity, BlockingCall call = call_kernel);
  ~ThreadsEngine() override;

  std::string_view name() const override { return identity_.name; }
  std::string fallback_reason() const override { return identity_.fallback_reason; }
  std::size_t depth() const override { return queue_.n_places(); }
  std::string details() const override;
  void start(const IoRequest& request, IoSink& sink) override { queue_.push(request, sink); }
  void cancel(const IoSink& sink) override { queue_.cancel(sink); }

 private:
  void stop();
  void run();
  void carry_out(Transfer& transfer);
  void finish(Transfer* transfer);
  void watch();

  const Identity identity_;
  const BlockingCall call_;
  TransferQueue queue_;
  std::vector<std::thread> threads_;
};

}  // namespace castor

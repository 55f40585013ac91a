// SPDX-License-Identifier: Apache-2.0
#include "threads/threads_engine.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "backends.h"
#include "quiet_thread.h"

namespace castor {

std::int64_t call_kernel(const TransferPart& part) {
  const auto offset = static_cast<off_t>(part.offset_bytes);
  std::int64_t answer = 0;
  switch (part.op) {
    case IoOp::read: answer = ::pread(part.fd, part.data, part.n_bytes, offset); break;
    case IoOp::write: answer = ::pwrite(part.fd, part.data, part.n_bytes, offset); break;
    case IoOp::sync: answer = ::fdatasync(part.fd); break;
  }
  return answer < 0 ? -errno : answer;
}

ThreadsEngine::ThreadsEngine(std::string fallback_reason, BlockingCall call)
    : fallback_reason_(std::move(fallback_reason)), call_(std::move(call)), queue_(kNPlaces) {
  for (int i = 0; i < kNThreads; ++i) threads_.push_back(start_quiet_thread("castor-io", [this] { run(); }));
}

ThreadsEngine::~ThreadsEngine() {
  queue_.stop();
  for (auto& thread : threads_) thread.join();
}

void ThreadsEngine::run() {
  while (Transfer* transfer = queue_.pop()) {
    if (!transfer->empty()) carry_out(*transfer);
    queue_.finish(transfer);
  }
}

void ThreadsEngine::carry_out(Transfer& transfer) {
  auto step = Transfer::Step::again;
  while (step != Transfer::Step::done) {
    if (step == Transfer::Step::again_later) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    step = transfer.advance(call_(transfer.next()));
  }
}

std::unique_ptr<IoEngine> make_threads_engine(std::string fallback_reason) {
  return std::make_unique<ThreadsEngine>(std::move(fallback_reason));
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "threads/threads_engine.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include <castor/memory/quiet_thread.h>

#include "engine/backends.h"

namespace castor {

std::int64_t call_kernel(const TransferPart& part) {
  const iovec bytes{part.data, part.n_bytes};
  const auto offset = static_cast<off_t>(part.offset_bytes);
  std::int64_t answer = 0;
  switch (part.op) {
    case IoOp::read: answer = ::preadv2(part.fd, &bytes, 1, offset, 0); break;
    case IoOp::write: answer = ::pwritev2(part.fd, &bytes, 1, offset, 0); break;
    case IoOp::sync: answer = ::fdatasync(part.fd); break;
  }
  return answer < 0 ? -errno : answer;
}

ThreadsEngine::ThreadsEngine(const IoEngineOptions& options, Identity identity, BlockingCall call)
    : identity_(std::move(identity)), call_(std::move(call)), queue_(options.depth) {
  try {
    for (unsigned i = 0; i < options.n_threads; ++i)
      threads_.push_back(start_quiet_thread("castor-io", [this] { run(); }));
    threads_.push_back(start_quiet_thread("castor-io-watch", [this] { watch(); }));
  } catch (...) {
    stop();
    throw;
  }
}

ThreadsEngine::~ThreadsEngine() { stop(); }

void ThreadsEngine::stop() {
  queue_.stop();
  for (auto& thread : threads_) thread.join();
}

std::string ThreadsEngine::details() const { return std::to_string(threads_.size() - 1) + " threads"; }

void ThreadsEngine::run() {
  while (Transfer* transfer = queue_.pop()) {
    if (!transfer->empty()) carry_out(*transfer);
    finish(transfer);
  }
}

void ThreadsEngine::carry_out(Transfer& transfer) {
  transfer.sink().on_start(transfer.request());
  auto step = Transfer::Step::again;
  while (step != Transfer::Step::done) {
    if (step == Transfer::Step::again_later) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    step = transfer.advance(call_(transfer.next()));
  }
}

/// The next request of a chain goes behind the waiting ones, so that no chain keeps the others from the drive.
void ThreadsEngine::finish(Transfer* transfer) {
  if (queue_.finish(transfer)) queue_.put_back(transfer);
}

/// Ends requests that wait when they are recalled, also while every thread is blocked in a call.
void ThreadsEngine::watch() {
  std::vector<Transfer*> waiting, running;
  while (queue_.wait_for_recall()) {
    queue_.take_recalled(std::chrono::steady_clock::now(), waiting, running);
    for (Transfer* transfer : waiting) finish(transfer);
    waiting.clear();
    running.clear();  // their threads see the recall between two calls
  }
}

std::unique_ptr<IoEngine> make_threads_engine(const IoEngineOptions& options, std::string fallback_reason) {
  return std::make_unique<ThreadsEngine>(options, ThreadsEngine::Identity{"threads", std::move(fallback_reason)});
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "uring/uring_engine.h"

#include <sys/eventfd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "backends.h"
#include "io_error.h"
#include "quiet_thread.h"

namespace castor {
namespace {

constexpr auto kPause = std::chrono::milliseconds(1);

}  // namespace

Result<std::unique_ptr<IoEngine>> UringEngine::make(AnswerFilter filter) {
  UniqueFd wake_fd(::eventfd(0, EFD_CLOEXEC));
  if (!wake_fd) return path_error("cannot make an eventfd for io_uring", "", errno);
  std::unique_ptr<UringEngine> engine(new UringEngine(std::move(wake_fd), std::move(filter)));
  auto set_up = std::make_shared<std::promise<Result<void>>>();  // owners: this call and the thread, which tells it how
                                                                 // the set-up went
  engine->thread_ = start_quiet_thread("castor-uring", [ours = engine.get(), set_up] { ours->run(*set_up); });
  CASTOR_TRY(set_up->get_future().get());
  return std::unique_ptr<IoEngine>(std::move(engine));
}

UringEngine::UringEngine(UniqueFd wake_fd, AnswerFilter filter)
    : queue_(kNPlaces), wake_fd_(std::move(wake_fd)), filter_(std::move(filter)) {
  taken_.reserve(kNPlaces);
  postponed_.reserve(kNPlaces);
}

UringEngine::~UringEngine() {
  queue_.stop();
  wake();
  thread_.join();
}

void UringEngine::start(const IoRequest& request, IoSink& sink) {
  if (queue_.push(request, sink)) wake();
}

void UringEngine::wake() {
  const std::uint64_t one = 1;
  while (::write(wake_fd_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void UringEngine::run(std::promise<Result<void>>& set_up) {
  auto ring = Ring::open(2 * kNPlaces);
  if (!ring.ok()) return set_up.set_value(ring.error());
  ring_.emplace(std::move(ring).value());
  set_up.set_value({});
  while (true) {
    const bool more_may_come = take_new();
    retry_postponed();
    if (more_may_come && !wake_up_armed_) arm_wake_up();
    if (!more_may_come && n_in_ring_ == 0 && postponed_.empty() && !wake_up_armed_) break;
    submit_and_wait();
    reap();
  }
  ring_.reset();
}

/// Prepares what callers have queued; false when no more will come.
bool UringEngine::take_new() {
  const bool more_may_come = queue_.take_all(taken_);
  for (Transfer* transfer : taken_) {
    if (transfer->empty())
      queue_.finish(transfer);
    else
      prepare(transfer);
  }
  taken_.clear();
  return more_may_come;
}

void UringEngine::arm_wake_up() {
  io_uring_sqe* sqe = io_uring_get_sqe(ring_->get());
  io_uring_prep_read(sqe, wake_fd_.get(), &wake_count_, sizeof wake_count_, 0);
  io_uring_sqe_set_data(sqe, nullptr);
  wake_up_armed_ = true;
}

void UringEngine::prepare(Transfer* transfer) {
  io_uring_sqe* sqe = io_uring_get_sqe(ring_->get());
  const TransferPart part = transfer->next();
  const auto n_bytes = static_cast<unsigned>(part.n_bytes);
  switch (part.op) {
    case IoOp::read: io_uring_prep_read(sqe, part.fd, part.data, n_bytes, part.offset_bytes); break;
    case IoOp::write: io_uring_prep_write(sqe, part.fd, part.data, n_bytes, part.offset_bytes); break;
    case IoOp::sync: io_uring_prep_fsync(sqe, part.fd, IORING_FSYNC_DATASYNC); break;
  }
  io_uring_sqe_set_data(sqe, transfer);
  ++n_in_ring_;
}

/// One call for the whole batch. It cannot be given up while the kernel may still move bytes: whatever it answers, the
/// loop goes on.
void UringEngine::submit_and_wait() {
  int answer = 0;
  if (postponed_.empty()) {
    answer = io_uring_submit_and_wait(ring_->get(), 1);
  } else {
    __kernel_timespec pause{0, std::chrono::nanoseconds(kPause).count()};
    io_uring_cqe* first = nullptr;
    answer = io_uring_submit_and_wait_timeout(ring_->get(), &first, 1, &pause, nullptr);
  }
  const bool expected = answer >= 0 || answer == -EINTR || answer == -ETIME;
  if (!expected) std::this_thread::sleep_for(kPause);  // the kernel is short of memory or of room for completions
}

void UringEngine::reap() {
  io_uring_cqe* cqe = nullptr;
  while (io_uring_peek_cqe(ring_->get(), &cqe) == 0) {
    auto* transfer = static_cast<Transfer*>(io_uring_cqe_get_data(cqe));
    const int answer = cqe->res;
    io_uring_cqe_seen(ring_->get(), cqe);
    if (transfer)
      on_answer(transfer, answer);
    else
      wake_up_armed_ = false;
  }
}

void UringEngine::on_answer(Transfer* transfer, int answer) {
  --n_in_ring_;
  switch (transfer->advance(filter_ ? filter_(answer) : answer)) {
    case Transfer::Step::again: return prepare(transfer);
    case Transfer::Step::again_later: return postpone(transfer);
    case Transfer::Step::done: return queue_.finish(transfer);
  }
}

/// The first that must wait starts the pause; those after it join.
void UringEngine::postpone(Transfer* transfer) {
  if (postponed_.empty()) retry_at_ = std::chrono::steady_clock::now() + kPause;
  postponed_.push_back(transfer);
}

void UringEngine::retry_postponed() {
  if (postponed_.empty() || std::chrono::steady_clock::now() < retry_at_) return;
  for (Transfer* transfer : postponed_) prepare(transfer);
  postponed_.clear();
}

Result<std::unique_ptr<IoEngine>> make_uring_engine() { return UringEngine::make(); }

Result<std::string> probe_io_uring() {
  CASTOR_ASSIGN(Ring ring, Ring::open(2 * kNPlaces));
  utsname system{};
  ::uname(&system);
  return "Linux " + std::string(system.release) +
         (ring.deferred() ? ", SINGLE_ISSUER and DEFER_TASKRUN" : ", plain completions") + ", a ring of " +
         std::to_string(2 * kNPlaces) + " entries; a no-op went through";
}

}  // namespace castor

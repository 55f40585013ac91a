// SPDX-License-Identifier: Apache-2.0
#include "uring/uring_loop.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <castor/memory/bytes.h>

namespace castor {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto kPause = std::chrono::milliseconds(1);
/// Sinks compute (checksums) over so many bytes before the loop turns to the kernel again.
constexpr std::uint64_t kBytesBetweenCalls = kMiB;

/// Two entries per request: its own and its call-back. The kernel's completion queue has twice as many.
RingOptions ring_options(const IoEngineOptions& options) {
  return {2 * static_cast<unsigned>(options.depth), options.sqpoll, options.iopoll};
}

/// Removes `transfer` from `line`; false where it was not in it.
bool take_out(boost::circular_buffer<Transfer*>& line, const Transfer* transfer) {
  const auto found = std::find(line.begin(), line.end(), transfer);
  if (found == line.end()) return false;
  line.erase(found);
  return true;
}

}  // namespace

UringLoop::UringLoop(const IoEngineOptions& options, const Inbox& inbox, AnswerFilter filter)
    : inbox_(inbox),
      filter_(std::move(filter)),
      kernel_depth_(options.kernel_depth > 0 ? options.kernel_depth : options.depth),
      ring_(ring_options(options), inbox.wake_up) {
  for (auto* line : {&fresh_, &ready_, &landed_}) line->set_capacity(options.depth);
  for (auto* list : {&taken_, &recalled_waiting_, &recalled_running_, &postponed_}) list->reserve(options.depth);
}

void UringLoop::run(std::promise<Result<void>>& set_up) {
  const auto opened = ring_.open();
  set_up.set_value(opened);
  if (!opened.ok()) return;
  const WakeUp& wake_up = inbox_.wake_up;
  while (true) {
    inbox_.errands.run_all();
    const bool more_may_come = take_new();
    call_back();
    retry_postponed();
    if (!more_may_come && idle() && !wake_up.armed()) break;
    if (!ring_.takes_transfers() && n_in_ring_ == 0) ring_.give_up_polling();
    if (more_may_come && !ring_.polls() && !wake_up.armed()) ring_.arm_wake_up();
    if (ring_.polls() && idle()) inbox_.wake_up.sleep();
    fill_kernel();
    if (has_work()) {
      ring_.submit();
      work();
    } else {
      ring_.submit_and_wait(longest_sleep(), n_in_ring_ > 0);
    }
    ring_.reap([this](Transfer* transfer, int answer) { on_answer(transfer, answer); });
  }
  ring_.close();
}

/// Takes the requests that callers have queued; false when the queue is stopped.
bool UringLoop::take_new() {
  const bool more_may_come = inbox_.queue.take_all(taken_, !has_work());
  fresh_.insert(fresh_.end(), taken_.begin(), taken_.end());
  taken_.clear();
  return more_may_come;
}

/// Ends the recalled requests that the kernel does not have, and asks the kernel to cancel the others.
void UringLoop::call_back() {
  inbox_.queue.take_recalled(SteadyClock::now(), recalled_waiting_, recalled_running_);
  landed_.insert(landed_.end(), recalled_waiting_.begin(), recalled_waiting_.end());
  for (Transfer* transfer : recalled_running_) {
    if (take_out(fresh_, transfer) || take_out(ready_, transfer))
      landed_.push_back(transfer);
    else
      ring_.call_back(transfer);
  }
  recalled_waiting_.clear();
  recalled_running_.clear();
}

/// Gives the kernel the requests that are ready, as far as it may have more.
void UringLoop::fill_kernel() {
  if (!ring_.takes_transfers()) return;
  while (!ready_.empty() && n_in_ring_ < kernel_depth_) {
    Transfer* const transfer = ready_.front();
    ready_.pop_front();
    ++n_in_ring_;
    ask(transfer);
  }
}

/// Calls sinks for a while: on_start first where the kernel would run out of requests, else on_complete.
void UringLoop::work() {
  for (std::uint64_t n_bytes = 0; has_work() && n_bytes < kBytesBetweenCalls;) {
    const bool starts = !fresh_.empty() && (landed_.empty() || n_in_ring_ + ready_.size() < kernel_depth_);
    Line& line = starts ? fresh_ : landed_;
    Transfer* const transfer = line.front();
    line.pop_front();
    n_bytes += transfer->request().bytes.n_bytes;
    starts ? begin(transfer) : finish(transfer);
  }
}

void UringLoop::begin(Transfer* transfer) {
  if (transfer->empty()) return landed_.push_back(transfer);
  transfer->sink().on_start(transfer->request());
  ready_.push_back(transfer);
}

/// The next request of a chain keeps the place.
void UringLoop::finish(Transfer* transfer) {
  if (inbox_.queue.finish(transfer)) fresh_.push_back(transfer);
}

/// Asks the kernel for the next part of `transfer`.
void UringLoop::ask(Transfer* transfer) {
  const auto part = transfer->next();
  if (part.op == IoOp::sync && ring_.polls())  // such a ring takes reads and writes alone
    return on_answer(transfer, ::fdatasync(part.fd) == 0 ? 0 : -errno);
  ring_.add(transfer, part);
}

void UringLoop::on_answer(Transfer* transfer, int answer) {
  if (answer == -EOPNOTSUPP && ring_.polls()) {
    ring_.refuse_polling();
    return postpone(transfer);
  }
  switch (transfer->advance(filter_ ? filter_(answer) : answer)) {
    case Transfer::Step::again: return ask(transfer);
    case Transfer::Step::again_later: return postpone(transfer);
    case Transfer::Step::done: --n_in_ring_; return landed_.push_back(transfer);
  }
}

/// The first transfer that must wait starts the pause; those after it join.
void UringLoop::postpone(Transfer* transfer) {
  --n_in_ring_;
  if (postponed_.empty()) retry_at_ = SteadyClock::now() + kPause;
  postponed_.push_back(transfer);
}

void UringLoop::retry_postponed() {
  if (postponed_.empty() || SteadyClock::now() < retry_at_ || !ring_.takes_transfers()) return;
  for (Transfer* transfer : postponed_) (transfer->recalled_as() == 0 ? ready_ : landed_).push_back(transfer);
  postponed_.clear();
}

/// How long the kernel may let this thread sleep; nothing = until there is a completion.
std::optional<std::chrono::nanoseconds> UringLoop::longest_sleep() const {
  auto until = postponed_.empty() ? kNoDeadline : retry_at_;
  until = std::min(until, inbox_.queue.next_deadline());
  if (until == kNoDeadline) return std::nullopt;
  return std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(until - SteadyClock::now()));
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "uring/uring_engine.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include <castor/memory/bytes.h>

#include "engine/backends.h"
#include "engine/io_error.h"
#include "engine/quiet_thread.h"

namespace castor {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto kPause = std::chrono::milliseconds(1);
/// So many bytes' worth of sinks' computing (checksums) is done before the kernel is looked after again.
constexpr std::uint64_t kBytesBetweenCalls = kMiB;

/// The user data of entries that are no transfer.
char kWakeUp, kCallBack;

/// Whether `transfer` was in `line`; it is not any more.
bool take_out(boost::circular_buffer<Transfer*>& line, const Transfer* transfer) {
  const auto found = std::find(line.begin(), line.end(), transfer);
  if (found == line.end()) return false;
  line.erase(found);
  return true;
}

}  // namespace

// ---- any thread ----

Result<std::unique_ptr<IoEngine>> UringEngine::make(const IoEngineOptions& options, AnswerFilter filter) {
  CASTOR_ASSIGN(WakeUp wake_up, WakeUp::make());
  std::unique_ptr<UringEngine> engine(new UringEngine(options, std::move(wake_up), std::move(filter)));
  auto set_up = std::make_shared<std::promise<Result<void>>>();  // owners: this call and the thread, which tells it how
                                                                 // the set-up went
  engine->thread_ = start_quiet_thread("castor-uring", [ours = engine.get(), set_up] { ours->run(*set_up); });
  CASTOR_TRY(set_up->get_future().get());
  return std::unique_ptr<IoEngine>(std::move(engine));
}

UringEngine::UringEngine(const IoEngineOptions& options, WakeUp wake_up, AnswerFilter filter)
    : queue_(options.depth),
      wake_up_(std::move(wake_up)),
      filter_(std::move(filter)),
      kernel_depth_(options.kernel_depth > 0 ? options.kernel_depth : options.depth) {
  ring_options_ = {2 * static_cast<unsigned>(options.depth), options.sqpoll, options.iopoll};
  for (auto* line : {&fresh_, &ready_, &landed_}) line->set_capacity(options.depth);
  for (auto* list : {&taken_, &recalled_waiting_, &recalled_running_, &postponed_}) list->reserve(options.depth);
}

UringEngine::~UringEngine() {
  queue_.stop();
  wake_up_.wake();
  thread_.join();
}

std::string UringEngine::details() const {
  const std::lock_guard lock(details_mutex_);
  return details_;
}

void UringEngine::start(const IoRequest& request, IoSink& sink) {
  if (queue_.push(request, sink)) wake_up_.wake();
}

void UringEngine::cancel(const IoSink& sink) {
  if (queue_.cancel(sink)) wake_up_.wake();
}

void UringEngine::register_file(int fd) {
  on_ring_thread([this, fd] { slots_.add_file(*ring_, fd); });
}

void UringEngine::unregister_file(int fd) {
  on_ring_thread([this, fd] { slots_.remove_file(*ring_, fd); });
}

std::uint64_t UringEngine::register_buffer(BufferView bytes) {
  std::uint64_t taken_bytes = 0;
  on_ring_thread([&] { taken_bytes = slots_.add_buffer(*ring_, bytes); });
  return taken_bytes;
}

void UringEngine::unregister_buffer(BufferView bytes) {
  on_ring_thread([&] { slots_.remove_buffer(*ring_, bytes); });
}

/// A ring of one issuer takes registrations from its thread alone.
void UringEngine::on_ring_thread(const std::function<void()>& errand) {
  errands_.add_and_wait(errand, [this] { wake_up_.wake(); });
}

// ---- the ring's thread ----

void UringEngine::run(std::promise<Result<void>>& set_up) {
  const auto opened = open_ring();
  set_up.set_value(opened);
  if (!opened.ok()) return;
  while (true) {
    errands_.run_all();
    const bool more_may_come = take_new();
    call_back();
    retry_postponed();
    if (!more_may_come && idle() && !wake_up_.armed()) break;
    if (polling_refused_ && ring_->polls() && n_in_ring_ == 0) stop_polling();
    if (more_may_come && !ring_->polls() && !wake_up_.armed()) arm_wake_up();
    if (ring_->polls() && idle()) wake_up_.sleep();
    fill_kernel();
    if (has_work()) {
      submit();
      work();
    } else {
      submit_and_wait();
    }
    reap();
  }
  ring_.reset();
}

Result<void> UringEngine::open_ring() {
  CASTOR_ASSIGN(auto ring, Ring::open(ring_options_));
  ring_.emplace(std::move(ring));
  const std::lock_guard lock(details_mutex_);
  details_ = ring_->modes() + (polling_refused_ ? "; IOPOLL was asked for, but the drive does not poll" : "");
  return {};
}

/// Takes what callers have queued; false when no more will come.
bool UringEngine::take_new() {
  const bool more_may_come = queue_.take_all(taken_, !has_work());
  fresh_.insert(fresh_.end(), taken_.begin(), taken_.end());
  taken_.clear();
  return more_may_come;
}

/// Ends what is recalled and is not with the kernel, and asks the kernel for what is.
void UringEngine::call_back() {
  queue_.take_recalled(SteadyClock::now(), recalled_waiting_, recalled_running_);
  landed_.insert(landed_.end(), recalled_waiting_.begin(), recalled_waiting_.end());
  for (Transfer* transfer : recalled_running_) {
    if (take_out(fresh_, transfer) || take_out(ready_, transfer)) {
      landed_.push_back(transfer);
      continue;
    }
    if (ring_->polls()) continue;  // such a ring cannot
    io_uring_sqe* sqe = ring_->next_entry();
    io_uring_prep_cancel(sqe, transfer, 0);
    io_uring_sqe_set_data(sqe, &kCallBack);
  }
  recalled_waiting_.clear();
  recalled_running_.clear();
}

void UringEngine::arm_wake_up() {
  io_uring_sqe* sqe = ring_->next_entry();
  wake_up_.arm(sqe);
  io_uring_sqe_set_data(sqe, &kWakeUp);
}

/// The kernel gets what is ready, as far as it may have more.
void UringEngine::fill_kernel() {
  if (polling_refused_ && ring_->polls()) return;
  while (!ready_.empty() && n_in_ring_ < kernel_depth_) {
    Transfer* const transfer = ready_.front();
    ready_.pop_front();
    ++n_in_ring_;
    ask(transfer);
  }
}

/// Some of what sinks compute: a start comes first where the kernel would run out of requests, else an end.
void UringEngine::work() {
  for (std::uint64_t n_bytes = 0; has_work() && n_bytes < kBytesBetweenCalls;) {
    const bool starts = !fresh_.empty() && (landed_.empty() || n_in_ring_ + ready_.size() < kernel_depth_);
    Line& line = starts ? fresh_ : landed_;
    Transfer* const transfer = line.front();
    line.pop_front();
    n_bytes += transfer->request().bytes.n_bytes;
    starts ? begin(transfer) : finish(transfer);
  }
}

void UringEngine::begin(Transfer* transfer) {
  if (transfer->empty()) return landed_.push_back(transfer);
  transfer->sink().on_start(transfer->request());
  ready_.push_back(transfer);
}

/// The next request of a chain keeps the place.
void UringEngine::finish(Transfer* transfer) {
  if (queue_.finish(transfer)) fresh_.push_back(transfer);
}

/// Prepares the call that moves `transfer` on.
void UringEngine::ask(Transfer* transfer) {
  const auto part = transfer->next();
  if (part.op == IoOp::sync && ring_->polls())  // such a ring takes reads and writes alone
    return on_answer(transfer, ::fdatasync(part.fd) == 0 ? 0 : -errno);
  io_uring_sqe* sqe = ring_->next_entry();
  fill_in(sqe, part);
  io_uring_sqe_set_data(sqe, transfer);
}

void UringEngine::fill_in(io_uring_sqe* sqe, const TransferPart& part) const {
  const int file_slot = slots_.file(part.fd);
  if (part.op != IoOp::sync) {
    const int buffer_slot = slots_.buffer(part.data, part.n_bytes);
    const BufferView bytes{part.data, part.n_bytes};
    return castor::fill_in(sqe, {part.op == IoOp::read, bytes, part.fd, part.offset_bytes, file_slot, buffer_slot});
  }
  io_uring_prep_fsync(sqe, file_slot >= 0 ? file_slot : part.fd, IORING_FSYNC_DATASYNC);
  if (file_slot >= 0) sqe->flags |= IOSQE_FIXED_FILE;
}

/// Without waiting. What the kernel cannot take now, the next call brings again.
void UringEngine::submit() {
  if (io_uring_sq_ready(ring_->get()) > 0) io_uring_submit(ring_->get());
}

/// How long the kernel may let this thread sleep; nothing = until something ends.
std::optional<std::chrono::nanoseconds> UringEngine::longest_sleep() const {
  auto until = postponed_.empty() ? kNoDeadline : retry_at_;
  until = std::min(until, queue_.next_deadline());
  if (until == kNoDeadline) return std::nullopt;
  return std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(until - SteadyClock::now()));
}

/// One call for the whole batch. It cannot be given up while the kernel may still move bytes: whatever it answers, the
/// loop goes on.
void UringEngine::submit_and_wait() {
  int answer = 0;
  if (const auto pause = longest_sleep()) {
    __kernel_timespec time{pause->count() / 1000000000, pause->count() % 1000000000};
    io_uring_cqe* first = nullptr;
    answer = io_uring_submit_and_wait_timeout(ring_->get(), &first, 1, &time, nullptr);
  } else {
    answer = io_uring_submit_and_wait(ring_->get(), ring_->polls() && n_in_ring_ == 0 ? 0 : 1);
  }
  const bool expected = answer >= 0 || answer == -EINTR || answer == -ETIME;
  if (!expected) std::this_thread::sleep_for(kPause);  // the kernel is short of memory or of room for completions
}

void UringEngine::reap() {
  io_uring_cqe* cqe = nullptr;
  while (io_uring_peek_cqe(ring_->get(), &cqe) == 0) {
    void* const what = io_uring_cqe_get_data(cqe);
    const int answer = cqe->res;
    io_uring_cqe_seen(ring_->get(), cqe);
    if (what == &kWakeUp)
      wake_up_.on_completion();
    else if (what != &kCallBack)
      on_answer(static_cast<Transfer*>(what), answer);
  }
}

void UringEngine::on_answer(Transfer* transfer, int answer) {
  if (answer == -EOPNOTSUPP && ring_->polls()) {
    polling_refused_ = true;
    return postpone(transfer);
  }
  switch (transfer->advance(filter_ ? filter_(answer) : answer)) {
    case Transfer::Step::again: return ask(transfer);
    case Transfer::Step::again_later: return postpone(transfer);
    case Transfer::Step::done: --n_in_ring_; return landed_.push_back(transfer);
  }
}

/// The first that must wait starts the pause; those after it join.
void UringEngine::postpone(Transfer* transfer) {
  --n_in_ring_;
  if (postponed_.empty()) retry_at_ = SteadyClock::now() + kPause;
  postponed_.push_back(transfer);
}

void UringEngine::retry_postponed() {
  if (postponed_.empty() || SteadyClock::now() < retry_at_ || (polling_refused_ && ring_->polls())) return;
  for (Transfer* transfer : postponed_) (transfer->recalled_as() == 0 ? ready_ : landed_).push_back(transfer);
  postponed_.clear();
}

/// The drive does not poll: a ring that sleeps takes over. Requires: the kernel has nothing.
void UringEngine::stop_polling() {
  ring_options_.iopoll = false;
  ring_.reset();
  while (!open_ring().ok()) std::this_thread::sleep_for(kPause);  // it worked once: memory for it comes back
  slots_.restore(*ring_);
}

Result<std::unique_ptr<IoEngine>> make_uring_engine(const IoEngineOptions& options) {
  return UringEngine::make(options);
}

Result<std::string> probe_io_uring() {
  CASTOR_ASSIGN(Ring ring, Ring::open(RingOptions{}));
  utsname system{};
  ::uname(&system);
  return "Linux " + std::string(system.release) + ", " + ring.modes() + ", a ring of " +
         std::to_string(RingOptions{}.n_entries) + " entries; a no-op went through";
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "uring/ring_queue.h"

#include <cerrno>
#include <thread>
#include <utility>

namespace castor {
namespace {

constexpr auto kShortage = std::chrono::milliseconds(1);  // a pause where the kernel is short of memory or of room

}  // namespace

RingQueue::RingQueue(const RingOptions& options, WakeUp& wake_up)
    : options_(options), wake_up_(wake_up), polling_(options.iopoll ? Polling::on : Polling::off) {}

Result<void> RingQueue::open() {
  CASTOR_ASSIGN(auto ring, Ring::open(options_));
  ring_.emplace(std::move(ring));
  const std::lock_guard lock(details_mutex_);
  const bool given_up = polling_ == Polling::given_up;
  details_ = ring_->modes() + (given_up ? "; IOPOLL was asked for, but the drive does not poll" : "");
  return {};
}

void RingQueue::give_up_polling() {
  options_.iopoll = false;
  polling_ = Polling::given_up;
  ring_.reset();
  while (!open().ok()) std::this_thread::sleep_for(kShortage);  // it worked once: the kernel will have memory again
  slots_.restore(*ring_);
}

std::string RingQueue::details() const {
  const std::lock_guard lock(details_mutex_);
  return details_;
}

void RingQueue::add(Transfer* transfer, const TransferPart& part) {
  io_uring_sqe* entry = ring_->next_entry();
  fill_in(entry, part);
  io_uring_sqe_set_data(entry, transfer);
}

void RingQueue::fill_in(io_uring_sqe* entry, const TransferPart& part) const {
  const int file_slot = slots_.file(part.fd);
  if (part.op != IoOp::sync) {
    const int buffer_slot = slots_.buffer(part.data, part.n_bytes);
    const BufferView bytes{part.data, part.n_bytes};
    return castor::fill_in(entry, {part.op == IoOp::read, bytes, part.fd, part.offset_bytes, file_slot, buffer_slot});
  }
  io_uring_prep_fsync(entry, file_slot >= 0 ? file_slot : part.fd, IORING_FSYNC_DATASYNC);
  if (file_slot >= 0) entry->flags |= IOSQE_FIXED_FILE;
}

void RingQueue::call_back(Transfer* transfer) {
  if (polls()) return;
  io_uring_sqe* entry = ring_->next_entry();
  io_uring_prep_cancel(entry, transfer, 0);
  io_uring_sqe_set_data(entry, this);
}

void RingQueue::arm_wake_up() {
  io_uring_sqe* entry = ring_->next_entry();
  wake_up_.arm(entry);
  io_uring_sqe_set_data(entry, &wake_up_);
}

void RingQueue::submit() {
  if (io_uring_sq_ready(ring_->get()) > 0) io_uring_submit(ring_->get());
}

void RingQueue::submit_and_wait(std::optional<std::chrono::nanoseconds> longest, bool has_transfers) {
  int answer = 0;
  if (longest) {
    __kernel_timespec time{longest->count() / 1000000000, longest->count() % 1000000000};
    io_uring_cqe* first = nullptr;
    answer = io_uring_submit_and_wait_timeout(ring_->get(), &first, 1, &time, nullptr);
  } else {
    answer = io_uring_submit_and_wait(ring_->get(), polls() && !has_transfers ? 0 : 1);
  }
  const bool expected = answer >= 0 || answer == -EINTR || answer == -ETIME;
  if (!expected) std::this_thread::sleep_for(kShortage);
}

/// The user data of the next completion, null where there is none: a transfer, the wake-up, or this for a call-back.
void* RingQueue::next_completion(int& answer) {
  io_uring_cqe* completion = nullptr;
  if (io_uring_peek_cqe(ring_->get(), &completion) != 0) return nullptr;
  void* const data = io_uring_cqe_get_data(completion);
  answer = completion->res;
  io_uring_cqe_seen(ring_->get(), completion);
  if (data == &wake_up_) wake_up_.on_completion();
  return data;
}

}  // namespace castor

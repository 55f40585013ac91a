// SPDX-License-Identifier: Apache-2.0
#include "transfer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <castor/memory/bytes.h>

namespace castor {

void Transfer::reset(const IoRequest& request, IoSink& sink) {
  request_ = request;
  sink_ = &sink;
  done_bytes_ = 0;
  n_waits_ = 0;
  error_number_ = 0;
  recalled_as_ = 0;
  recall_told = false;
  synced_ = false;
}

TransferPart Transfer::next() const {
  const auto left_bytes = request_.bytes.n_bytes - done_bytes_;
  return {request_.op, request_.fd, request_.bytes.data + done_bytes_, std::min(left_bytes, kMaxPartBytes),
          request_.offset_bytes + done_bytes_};
}

bool Transfer::complete() const { return request_.op == IoOp::sync ? synced_ : done_bytes_ >= request_.bytes.n_bytes; }

Transfer::Step Transfer::fail(int error_number) {
  // A direct read that the file's end cut short inside a sector cannot be resumed there (EINVAL): the file is too
  // short.
  const bool cut = error_number == EINVAL && request_.op == IoOp::read && done_bytes_ % kTensorAlignBytes != 0;
  error_number_ = cut ? ENODATA : error_number;
  return Step::done;
}

Transfer::Step Transfer::go_on(Step step) {
  if (recalled_as_ != 0) return Step::done;
  const bool late = request_.deadline != kNoDeadline && request_.deadline <= std::chrono::steady_clock::now();
  return late ? fail(ETIMEDOUT) : step;
}

Transfer::Step Transfer::wait_or_fail() { return ++n_waits_ > kMaxWaits ? fail(EAGAIN) : go_on(Step::again_later); }

Transfer::Step Transfer::advance(std::int64_t answer) {
  if (answer == -EINTR) return go_on(Step::again);
  if (answer == -EAGAIN) return wait_or_fail();
  if (answer < 0) return fail(static_cast<int>(-answer));
  if (request_.op == IoOp::sync) {
    synced_ = true;
    return Step::done;
  }
  if (answer == 0) return fail(ENODATA);
  n_waits_ = 0;
  done_bytes_ += static_cast<std::uint64_t>(answer);
  return complete() ? Step::done : go_on(Step::again);
}

IoOutcome Transfer::outcome() const {
  if (complete()) return {done_bytes_, 0};
  return {done_bytes_, recalled_as() != 0 ? recalled_as() : error_number_};
}

}  // namespace castor

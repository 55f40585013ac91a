// SPDX-License-Identifier: Apache-2.0
#include "transfer.h"

#include <algorithm>
#include <cerrno>

#include <castor/memory/bytes.h>

#include "io_error.h"

namespace castor {

TransferPart Transfer::next() const {
  const auto left_bytes = request_.bytes.n_bytes - done_bytes_;
  return {request_.op, request_.fd, request_.bytes.data + done_bytes_, std::min(left_bytes, kMaxPartBytes),
          request_.offset_bytes + done_bytes_};
}

Transfer::Step Transfer::fail(int error_number) {
  // A direct read that the end of the file cut inside a sector cannot be resumed there: what failed is the file's
  // length.
  stalled_ = error_number == EINVAL && request_.op == IoOp::read && done_bytes_ % kTensorAlignBytes != 0;
  error_number_ = error_number;
  return Step::done;
}

Transfer::Step Transfer::wait_or_fail() { return ++n_waits_ > kMaxWaits ? fail(EAGAIN) : Step::again_later; }

Transfer::Step Transfer::advance(std::int64_t answer) {
  if (answer == -EINTR) return Step::again;
  if (answer == -EAGAIN) return wait_or_fail();
  if (answer < 0) return fail(static_cast<int>(-answer));
  if (request_.op == IoOp::sync) return Step::done;
  stalled_ = answer == 0;
  n_waits_ = 0;
  done_bytes_ += static_cast<std::uint64_t>(answer);
  return stalled_ || done_bytes_ >= request_.bytes.n_bytes ? Step::done : Step::again;
}

Result<std::uint64_t> Transfer::outcome() const {
  if (stalled_) return stalled_error(request_, done_bytes_);
  if (error_number_ != 0) return request_error(request_, done_bytes_, error_number_);
  return done_bytes_;
}

}  // namespace castor

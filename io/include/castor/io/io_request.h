// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include <castor/memory/buffer.h>
#include <castor/memory/result.h>

namespace castor {

enum class IoOp : std::uint8_t {
  read,   ///< file to memory
  write,  ///< memory to file
  sync,   ///< makes earlier writes durable (fdatasync); it has no bytes and no offset
};

/// The time by which a request must have ended.
using IoDeadline = std::chrono::steady_clock::time_point;
inline constexpr IoDeadline kNoDeadline = IoDeadline::max();
/// `timeout` from now; 0 = none.
inline IoDeadline deadline_after(std::chrono::milliseconds timeout) {
  return timeout.count() > 0 ? std::chrono::steady_clock::now() + timeout : kNoDeadline;
}

/// One transfer between a file and memory, of any size.
///
/// Owns nothing: the file, the path's characters and the bytes must stay as they are until the request has ended.
/// On a file opened with O_DIRECT, offset, length and address must be multiples of DirectFile's alignments.
struct IoRequest {
  IoOp op = IoOp::read;
  int fd = -1;
  std::string_view path;           ///< for error messages only
  std::uint64_t offset_bytes = 0;  ///< where in the file
  BufferView bytes;
  IoDeadline deadline = kNoDeadline;
};

/// The end of a request. With the request it gives path, offset, length, bytes moved and reason.
struct IoOutcome {
  std::uint64_t moved_bytes = 0;
  /// 0 where every byte moved (or the sync is done); ENODATA where the file ended, ETIMEDOUT where the deadline passed,
  /// ECANCELED where the request was cancelled, else the system's errno.
  int error_number = 0;

  bool ok() const { return error_number == 0; }
};

/// The sentence for `outcome`: the operation and its file, the bytes moved, the reason, and advice (kind io).
/// Requires: !outcome.ok().
Error io_error(const IoRequest& request, const IoOutcome& outcome);

/// The bytes moved, or io_error.
Result<std::uint64_t> io_result(const IoRequest& request, const IoOutcome& outcome);

/// The receiver of a request's outcome, and of the requests that follow it in a chain: the caller's own object, so that
/// no request allocates.
///
/// The engine calls both functions on threads of its own, never two at a time for one sink. They may compute (a
/// checksum over bytes that are in the cache or about to be) but must not wait; so of the engine they may only call
/// start, and that only where a place is certainly free. A caller that only wants to wait takes the Event of
/// IoEngine::submit.
class IoSink {
 public:
  virtual ~IoSink() = default;
  /// Called before the engine first asks the kernel for a byte of `request`. Not called for a request of no bytes, nor
  /// for one that ends while it still waits: cancelled, or past its deadline.
  virtual void on_start(const IoRequest& request) noexcept { (void)request; }
  /// Called once per request, when neither engine nor kernel uses its bytes any more. Where this returns another
  /// request, the engine continues with it in the same place of its queue, for the same sink; else the engine does not
  /// touch the sink after the call, so the sink may be destroyed within it.
  virtual std::optional<IoRequest> on_complete(const IoOutcome& outcome) noexcept = 0;
};

}  // namespace castor

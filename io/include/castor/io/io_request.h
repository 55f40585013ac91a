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
  sync,   ///< what was written before lies on the drive when this ends (fdatasync); it has no bytes and no offset
};

/// When a request must have ended.
using IoDeadline = std::chrono::steady_clock::time_point;
inline constexpr IoDeadline kNoDeadline = IoDeadline::max();
/// So long from now; 0 = none.
inline IoDeadline deadline_after(std::chrono::milliseconds timeout) {
  return timeout.count() > 0 ? std::chrono::steady_clock::now() + timeout : kNoDeadline;
}

/// One transfer between a file and memory, of any size.
///
/// Nothing is owned: the file, the path's characters and the bytes must stay as they are until the request has ended.
/// On a file opened with O_DIRECT, offset, length and address must be multiples of what DirectFile says.
struct IoRequest {
  IoOp op = IoOp::read;
  int fd = -1;
  std::string_view path;           ///< for error messages only
  std::uint64_t offset_bytes = 0;  ///< where in the file
  BufferView bytes;
  IoDeadline deadline = kNoDeadline;
};

/// How a request ended. Together with the request it says everything: path, offset, length, how far, why.
struct IoOutcome {
  std::uint64_t moved_bytes = 0;
  /// 0 where every byte moved (or the sync is done); ENODATA where the file ended, ETIMEDOUT where the deadline passed,
  /// ECANCELED where somebody cancelled it, else the system's errno.
  int error_number = 0;

  bool ok() const { return error_number == 0; }
};

/// The sentence for `outcome`: what was asked of which file, how far it came, the reason, what to do (kind io).
/// Requires: !outcome.ok().
Error io_error(const IoRequest& request, const IoOutcome& outcome);

/// The bytes moved, or io_error.
Result<std::uint64_t> io_result(const IoRequest& request, const IoOutcome& outcome);

/// Whose requests an engine carries out, one at a time: the caller's own object, so that no request allocates.
///
/// The engine calls both functions on threads of its own, never two at a time for one sink. They may compute (a
/// checksum over bytes that are in the cache or about to be) but must not wait; so of the engine they may only call
/// start, and that only where a place is free for certain. Whoever only wants to wait takes the Event of
/// IoEngine::submit.
class IoSink {
 public:
  virtual ~IoSink() = default;
  /// Called before the kernel is first asked for a byte of `request`. Not called for a request of no bytes, nor for one
  /// that ends while it still waits: cancelled, or past its deadline.
  virtual void on_start(const IoRequest& request) noexcept { (void)request; }
  /// Called once per request. The engine has let go of the request's bytes before. Where another request is returned,
  /// the engine goes on with that one in the same place of its queue, for the same sink; else it has let go of the sink
  /// when the call returns, and the sink may be gone by then.
  virtual std::optional<IoRequest> on_complete(const IoOutcome& outcome) noexcept = 0;
};

}  // namespace castor

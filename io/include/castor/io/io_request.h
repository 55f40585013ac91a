// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include <castor/memory/buffer.h>
#include <castor/memory/result.h>

namespace castor {

enum class IoOp : std::uint8_t {
  read,   ///< file to memory
  write,  ///< memory to file
  sync,   ///< what was written before lies on the drive when this ends (fdatasync); it has no bytes and no offset
};

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
};

/// Who is told how a request ended.
///
/// This is the way without an allocation per request: the caller's own object takes the outcome. Whoever wants to wait
/// on a thread instead takes the Event of IoEngine::submit.
class IoSink {
 public:
  virtual ~IoSink() = default;
  /// Called exactly once per request, on a thread of the engine: it must not block, nor start a request. On success the
  /// value is the bytes moved, which are all that were asked for (0 for a sync). The engine has let go of the request's
  /// bytes before the call, and of the sink when the call returns; the sink may be gone by then.
  virtual void on_complete(Result<std::uint64_t> outcome) noexcept = 0;
};

}  // namespace castor

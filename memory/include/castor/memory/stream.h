// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include <castor/memory/event.h>

namespace castor {

/// The time at which a stream reached a point of its queue.
class StreamTime {
 public:
  virtual ~StreamTime() = default;
  /// Seconds from `earlier` to this time. Blocks until the stream has reached this point. Requires: `earlier` is of the
  /// same stream (ContractViolation). Errors: failed, where the device cannot tell.
  virtual Result<double> seconds_since(const StreamTime& earlier) const = 0;
  /// Blocks until seconds_since(earlier) would not, or about as long as `limit`; true in the first case. The time of a
  /// device's stream, whose work waits for no drive, is not waited for: true.
  virtual bool known_since(const StreamTime& earlier, std::chrono::nanoseconds limit) const {
    return static_cast<void>(earlier), static_cast<void>(limit), true;
  }
};

/// A stream or a team of threads whose work can be timed.
class WorkTimer {
 public:
  virtual ~WorkTimer() = default;
  /// Notes the time at which all work queued so far has run. Cost: a few microseconds.
  virtual std::unique_ptr<StreamTime> time() = 0;
};

/// Work that runs in the order it was queued, beside other streams.
///
/// A failure (a refused copy, a wait for an event that ended in a failure) stops the stream: copies queued after it are
/// left out, and every event from there on carries the failure, until synchronize() has reported it. So no caller takes
/// bytes that never arrived for good ones. An event is never reached before the work queued ahead of it has stopped
/// touching its bytes, also when it carries a failure.
///
/// Threads: one thread queues at a time.
class Stream : public WorkTimer {
 public:
  /// Queues a copy between any two of host, pinned and device memory; returns the event of its end.
  /// The bytes on both sides must stay valid until that event.
  virtual Event copy(void* target, const void* source, std::uint64_t n_bytes) = 0;
  /// Makes all work queued from here on start after `event`. Where the stream runs on the calling thread, or cannot
  /// queue a wait for an event of another backend, the calling thread waits here. Errors: in that case, the event's
  /// failure; after a queued wait, the failure is in the events that follow.
  virtual Result<void> wait(const Event& event) = 0;
  /// The event of everything queued so far.
  virtual Event record() = 0;
  /// Blocks until everything queued has run. Errors: the first failure since the last call; the stream then starts
  /// afresh.
  virtual Result<void> synchronize() = 0;
  /// Stands for a kernel that reads and writes `n_bytes` where memory is addresses alone: a stream of virtual time lets
  /// its time pass; no other stream does anything.
  virtual void touch(std::uint64_t n_bytes) { static_cast<void>(n_bytes); }
  /// cudaStream_t of a CUDA stream, null for a host stream.
  virtual void* native_handle() const { return nullptr; }
};

}  // namespace castor

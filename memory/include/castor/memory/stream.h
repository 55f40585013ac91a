// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <castor/memory/event.h>

namespace castor {

/// When a stream got to a point of its queue.
class StreamTime {
 public:
  virtual ~StreamTime() = default;
  /// Seconds from `earlier` to here. Blocks until the stream has got here. Requires: `earlier` is of the same stream
  /// (ContractViolation). Errors: failed, where the device lost count.
  virtual Result<double> seconds_since(const StreamTime& earlier) const = 0;
};

/// Somebody whose work is timed.
class WorkTimer {
 public:
  virtual ~WorkTimer() = default;
  /// Notes the time at which what is queued so far has run. Cost: a few microseconds.
  virtual std::unique_ptr<StreamTime> time() = 0;
};

/// Work that runs in the order it was queued, beside other streams.
///
/// A failure (a copy refused, an event waited for that ended badly) stops the stream: copies queued after it are left
/// out, and every event from there on carries the failure, until synchronize() has reported it. So nobody takes bytes
/// that never came for good. An event is never reached before the work queued ahead of it has left its bytes alone,
/// also when it carries a failure.
///
/// Threads: one thread queues at a time.
class Stream : public WorkTimer {
 public:
  /// Queues a copy between any two of host, pinned and device memory; returns the event of its end.
  /// The bytes on both sides must stay valid until that event.
  virtual Event copy(void* target, const void* source, std::uint64_t n_bytes) = 0;
  /// What is queued from here on starts after `event`. Where the stream runs on the calling thread, or cannot queue a
  /// wait for an event of another backend, the calling thread waits here. Errors: in that case, what the event ended
  /// with; a queued wait fails with the work after it.
  virtual Result<void> wait(const Event& event) = 0;
  /// The event of everything queued so far.
  virtual Event record() = 0;
  /// Blocks until everything queued has run. Errors: the first failure since the last call; the stream then starts
  /// afresh.
  virtual Result<void> synchronize() = 0;
  /// cudaStream_t of a CUDA stream, null for a host stream.
  virtual void* native_handle() const { return nullptr; }
};

}  // namespace castor

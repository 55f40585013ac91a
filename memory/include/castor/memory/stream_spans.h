// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>

#include <castor/memory/stream.h>
#include <castor/memory/timeline.h>

namespace castor {

/// Records in a timeline when a stream ran the work that a thread queued on it: the stream may run far behind the
/// thread.
///
/// Where a stream does not tell when it reached an event, its work begins and ends when the thread queues it.
///
/// Threads: the thread that queues on the stream.
class StreamSpans {
 public:
  /// The point before the work of a span.
  struct Begun {
    Event reached;
    std::uint64_t given_ns = 0;
  };

  /// Borrowed.
  StreamSpans(Timeline& timeline, Stream& stream) : timeline_(timeline), stream_(stream) {}

  /// Begins a span: work that is queued from here on belongs to it.
  Begun begin() { return {stream_.record(), timeline_.now_ns()}; }
  /// Ends a span whose work is all queued: records `what`, from the time at which the stream reached `begun` to that at
  /// which it reaches this point, once both are known. The times in `what` are ignored.
  void end(Begun begun, SpanRecord what);
  /// Records the spans that have ended by now; waits for none. end() does so as well.
  void settle();

 private:
  struct Open {
    SpanRecord what;
    Event begun, ended;
  };

  Timeline& timeline_;
  Stream& stream_;
  std::deque<Open> open_;  ///< in the order in which they end
};

}  // namespace castor

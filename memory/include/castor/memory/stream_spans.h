// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>

#include <castor/memory/stream.h>
#include <castor/memory/timeline.h>

namespace castor {

/// Enters into a timeline when a stream did what the thread gave it: the stream may run far behind the thread.
///
/// Where a stream does not say when it got somewhere, its work begins and ends when the thread gives it.
///
/// Threads: that which queues on the stream.
class StreamSpans {
 public:
  /// Before the work of a span.
  struct Begun {
    Event reached;
    std::uint64_t given_ns = 0;
  };

  /// Borrowed.
  StreamSpans(Timeline& timeline, Stream& stream) : timeline_(timeline), stream_(stream) {}

  /// What is queued from here on belongs to a span.
  Begun begin() { return {stream_.record(), timeline_.now_ns()}; }
  /// All of it is queued: `what` enters the timeline, from the stream's getting to `begun` to its getting here, once that is
  /// known. Its own times do not count.
  void end(Begun begun, SpanRecord what);
  /// Enters the spans that have ended by now; waits for none. end() does so as well.
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

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <castor/memory/stream.h>
#include <castor/memory/timeline.h>
#include <castor/plan/access_trace.h>

namespace castor {

/// How long the moments of an iteration take, beside waiting for chunks and for room: the thread, what it does to bring
/// chunks included, and the stream that does the moment's work, where the thread runs ahead of one.
///
/// While the thread waits within a moment nothing is queued, so what the stream takes between the two marks around the wait
/// is what it stood idle for: nothing where it had work left.
class MomentClock {
 public:
  /// Borrowed.
  explicit MomentClock(const Timeline& timeline) : timeline_(&timeline) {}

  /// A moment begins to wait for what it needs. Its work is what `timer` (borrowed) times; null: the thread does it.
  void add(WorkTimer* timer);
  /// What the last moment needs is there, or on its way ahead of the compute stream's next work.
  void start();
  /// The last moment ends, unless it has before.
  void stop() { pause(); }
  /// The thread waits from here to go_on().
  void pause();
  void go_on();
  void clear() { moments_.clear(); }

  /// Waits for the streams. Errors: failed.
  Result<MomentSeconds> seconds() const;

 private:
  struct Mark {
    std::unique_ptr<StreamTime> on_stream;  ///< null where the thread is timed
    std::uint64_t ns = 0;
  };
  struct Timed {
    WorkTimer* timer = nullptr;
    std::vector<Mark> marks;               ///< computes from each even one to the next
    std::vector<std::uint64_t> thread_ns;  ///< the thread is busy from each even one to the next
    bool computes() const { return marks.size() % 2 == 1; }
    bool busy() const { return thread_ns.size() % 2 == 1; }
  };

  void mark();
  static Result<double> compute_seconds(const Mark& begin, const Mark& end);
  static Result<double> compute_seconds(const Timed& moment);
  static double thread_seconds(const Timed& moment);

  const Timeline* timeline_;
  std::vector<Timed> moments_;
};

}  // namespace castor

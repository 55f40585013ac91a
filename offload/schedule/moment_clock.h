// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <castor/memory/stream.h>
#include <castor/memory/timeline.h>
#include <castor/plan/access_trace.h>

namespace castor {

/// Measures how long the moments of an iteration take, not counting waits for chunks and for room: the time of the
/// thread, including its work to move chunks, and the time of the stream that does the moment's work, where the thread
/// runs ahead of one.
///
/// While the thread waits within a moment it queues nothing, so the stream's time between the two marks around the wait
/// is idle time: zero where the stream had work left. It is not counted.
class MomentClock {
 public:
  /// Borrowed.
  explicit MomentClock(const Timeline& timeline) : timeline_(&timeline) {}

  /// Begins a moment, which first waits for its needs. `timer` (borrowed) times its work; null: the thread does the
  /// work.
  void add(WorkTimer* timer);
  /// The needs of the last moment are in place, or will arrive before the compute stream's next work.
  void start();
  /// Ends the last moment, unless it has ended already.
  void stop() { pause(); }
  /// The thread waits from here to go_on().
  void pause();
  void go_on();
  void clear() { moments_.clear(); }

  /// Waits until seconds() would wait for no work of the host, or about as long as `limit`; whether that is so.
  bool known_within(std::chrono::nanoseconds limit) const;
  /// The times of all moments. Waits for the streams. Errors: failed.
  Result<MomentSeconds> seconds() const;

 private:
  struct Mark {
    std::unique_ptr<StreamTime> on_stream;  ///< null where the thread is timed
    std::uint64_t ns = 0;
  };
  /// A moment waits for its needs until start(), and then works; the thread pauses in both.
  enum class State : std::uint8_t { preparing, preparing_paused, working, working_paused };
  struct Timed {
    WorkTimer* timer = nullptr;
    State state = State::preparing;
    std::vector<Mark> marks;               ///< the work runs from each even mark to the next
    std::vector<std::uint64_t> thread_ns;  ///< the thread is busy from each even time to the next
  };

  void mark_work();
  void mark_thread() { moments_.back().thread_ns.push_back(timeline_->now_ns()); }
  static Result<double> compute_seconds(const Mark& begin, const Mark& end);
  static Result<double> compute_seconds(const Timed& moment);
  static double thread_seconds(const Timed& moment);

  const Timeline* timeline_;
  std::vector<Timed> moments_;
};

}  // namespace castor

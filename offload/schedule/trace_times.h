// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include <castor/plan/access_trace.h>

#include "moment_clock.h"

namespace castor {

/// Times the moments of the first few iterations that follow a trace, and keeps the typical times.
///
/// The times of an iteration are read at the end of the next one, when all its work has finished, or when a caller
/// waits for them.
class TraceTimes {
 public:
  /// Borrowed.
  explicit TraceTimes(const Timeline& timeline) : timeline_(timeline), clock_(timeline) {}

  /// Begins a moment. `timer`: as MomentClock::add.
  void begin_moment(WorkTimer* timer);
  /// The clock of the moment under way, for its start, pause, go_on and stop.
  MomentClock& clock() { return clock_; }

  /// Ends the iteration under way. Requires: settle() has read the one before.
  void end_iteration() { ended_.emplace(std::exchange(clock_, MomentClock(timeline_))); }
  /// Discards the times of the iteration under way.
  void drop_iteration() { clock_.clear(); }
  /// Discards all times, for another trace.
  void restart();

  /// Waits until settle() would wait for no work of the host, or about as long as `limit`; whether that is so.
  bool known_within(std::chrono::nanoseconds limit) const { return !ended_ || ended_->known_within(limit); }
  /// Waits for the work of the iteration that ended last, and sets `trace`'s times to the typical ones so far.
  void settle(AccessTrace& trace);
  /// The times will not change any more.
  bool final() const;
  /// True from when the times become final until note_final_seen().
  bool newly_final() const { return unseen_ && final(); }
  void note_final_seen() { unseen_ = false; }

 private:
  const Timeline& timeline_;
  MomentClock clock_;                 ///< of the iteration under way
  std::optional<MomentClock> ended_;  ///< of the iteration before, until settle()
  std::vector<MomentSeconds> times_;  ///< of the iterations so far
  bool unseen_ = false;               ///< times were added since the last note_final_seen()
};

}  // namespace castor

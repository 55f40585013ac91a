// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <castor/plan/access_trace.h>

#include "moment_clock.h"

namespace castor {

/// Times the moments of the first few iterations that go as a trace, and keeps the typical ones.
///
/// An iteration's times are read at the end of the next one, when all its work has run long ago, or when somebody waits for them.
class TraceTimes {
 public:
  /// Borrowed.
  explicit TraceTimes(const Timeline& timeline) : timeline_(timeline), clock_(timeline) {}

  /// A moment begins. `timer`: as MomentClock::add.
  void begin_moment(WorkTimer* timer);
  /// MomentClock's start, pause, go_on and stop, of the moment under way.
  MomentClock& clock() { return clock_; }

  /// The iteration under way is over. settle() must have read the one before.
  void end_iteration() { ended_.emplace(std::exchange(clock_, MomentClock(timeline_))); }
  /// The iteration under way does not count.
  void drop_iteration() { clock_.clear(); }
  /// Another trace begins.
  void restart();

  /// Waits for the work of the iteration that ended last, and sets `trace`'s times to the typical ones so far.
  void settle(AccessTrace& trace);
  /// The times will not change any more.
  bool final() const;
  /// The times have become final since this was last asked.
  bool became_final() { return std::exchange(unseen_, false) && final(); }

 private:
  const Timeline& timeline_;
  MomentClock clock_;                 ///< of the iteration under way
  std::optional<MomentClock> ended_;  ///< of the iteration before, until settle()
  std::vector<MomentSeconds> times_;  ///< of the iterations so far
  bool unseen_ = false;
};

}  // namespace castor

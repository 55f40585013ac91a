// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <castor/plan/access_trace.h>

#include "moment_clock.h"

namespace castor {

/// Follows iterations as they come: records each, and knows from the one before (the trace) whether this one goes the same
/// way, and how long its moments take. One that breaks off and begins anew (evaluation between two steps: forward passes
/// alone) is none; the updates that were made in it are not made again, and are passed over. Nor is one that ends before its
/// updates, of a step that was skipped.
class IterationFollower {
 public:
  /// Borrowed.
  explicit IterationFollower(const Timeline& timeline) : timeline_(timeline), clock_(timeline) {}

  /// A moment begins; what it computes ends the one before. `timer`: as MomentClock::add. Returns how many moments are new
  /// in the recording: this one, after those that were passed over.
  std::uint64_t begin(Moment moment, std::span<const Need> needs, WorkTimer* timer);
  /// What the moment under way needs is there, or on its way ahead of the compute stream's next work.
  void start() { clock_.start(); }
  /// The thread waits within the moment under way, or before it, from here to go_on().
  void pause() { clock_.pause(); }
  void go_on() { clock_.go_on(); }
  /// The recording of this iteration, for what comes up in the moment under way; null before the first.
  AccessTrace* recording() { return recording_.empty() ? nullptr : &recording_; }
  /// The iteration is over. The first few on a trace are timed.
  void end();
  /// The same of one that is not to be recorded: trace() stays as it is.
  void break_off();
  /// Takes over how long the moments of the last iteration took: waits for whoever does their work. Otherwise that happens
  /// at the end of the next one, when all has run long ago.
  void take_times();
  void forget();
  /// Iterations are expected to go as `trace` from now on, the first one perhaps without updates that were made before it.
  /// Requires: between two iterations.
  void expect(AccessTrace trace);

  const AccessTrace& trace() const { return trace_; }
  /// This iteration has followed the trace so far.
  bool steady() const { return on_trace_ && !trace_.empty(); }
  /// Moments of this iteration that have begun.
  std::uint64_t n_begun() const { return recording_.n_moments(); }
  /// The last iteration went the way of the one before.
  bool again() const { return again_; }
  /// The times of trace() will not change any more.
  bool timed() const;
  /// The times of trace() are new since this was last asked, and will not change any more.
  bool timed_for_good();

 private:
  bool leads_to_trace(Moment moment) const;
  bool begins_pass(Moment moment) const;
  std::uint64_t first_but_updates(std::uint64_t position) const;
  std::uint64_t pass_over_updates(Moment moment);
  bool lacks_updates_alone() const;
  void clear_recording();

  const Timeline& timeline_;
  AccessTrace trace_;                 ///< of the last iteration
  AccessTrace recording_;             ///< of this one
  MomentClock clock_;                 ///< of recording_, where it is timed
  std::optional<MomentClock> ended_;  ///< of trace_, where its last iteration's times were not taken yet
  std::vector<MomentSeconds> times_;  ///< of iterations since trace_ was another
  bool on_trace_ = true;
  bool broke_off_ = false;  ///< this iteration, to begin anew, or the one before, at its updates
  bool again_ = false;
  bool timed_ = false;
};

}  // namespace castor

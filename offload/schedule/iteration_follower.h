// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <castor/mover/move_guide.h>
#include <castor/plan/access_trace.h>

#include "trace_times.h"

namespace castor {

/// How the iteration under way relates to the trace.
enum class FollowState : std::uint8_t {
  fresh,     ///< has made the accesses of the trace so far
  rejoined,  ///< the same, after an iteration that broke off; updates made in that one may be missing
  astray,    ///< has made others, and is recorded as a new trace
};
inline constexpr std::size_t kNFollowStates = 3;

/// An event of the iteration under way.
enum class FollowEvent : std::uint8_t {
  followed,    ///< a moment begins, and the trace has it next
  strayed,     ///< a moment begins that is not the trace's next
  began_anew,  ///< before such a moment, if it is the trace's first: the iteration broke off and begins anew
  ended,       ///< the iteration is over, and replaces the trace if it differs
  broke_off,   ///< the iteration is over and leaves the trace as it is
  expected,    ///< another trace was set, which no iteration has begun
};
inline constexpr std::size_t kNFollowEvents = 6;

/// The state that follows `state` at `event`. An iteration that went astray stays astray at `followed`, since it has
/// left the trace.
constexpr FollowState next_state(FollowState state, FollowEvent event) {
  using enum FollowState;
  constexpr std::array<std::array<FollowState, kNFollowEvents>, kNFollowStates> table = {{
      // followed, strayed, began_anew, ended,  broke_off, expected
      {fresh,      astray,  rejoined,   fresh,  rejoined,  rejoined},  // fresh
      {rejoined,   astray,  rejoined,   fresh,  rejoined,  rejoined},  // rejoined
      {astray,     astray,  rejoined,   fresh,  rejoined,  rejoined},  // astray
  }};
  return table[static_cast<std::size_t>(state)][static_cast<std::size_t>(event)];
}

/// Follows iterations: records each, and compares it with the one before (the trace), which predicts its accesses and
/// how long its moments take. An iteration that breaks off and begins anew (evaluation between two steps: forward
/// passes alone) does not replace the trace; nor does one that ends before its updates, of a step that was skipped.
class IterationFollower final : public MoveGuide {
 public:
  /// Borrowed.
  explicit IterationFollower(const Timeline& timeline) : times_(timeline) {}

  /// Begins a moment, which ends the one before. `timer`: as MomentClock::add. Returns how many moments are new in the
  /// recording: this one, after the updates that were passed over.
  std::uint64_t begin(Moment moment, std::span<const Need> needs, WorkTimer* timer);
  /// The needs of the moment under way are in place, or will arrive before the compute stream's next work.
  void start() { times_.clock().start(); }
  /// Ends the iteration.
  void end();
  /// True where the iteration that ended last followed the trace.
  bool repeated() const { return repeated_; }
  /// Ends the iteration and discards its recording: trace() stays as it is.
  void break_off();
  /// Expects iterations to follow `trace` from now on; an empty one predicts nothing. Requires: between two iterations.
  void expect(AccessTrace trace);

  const AccessTrace& trace() const { return trace_; }
  /// Waits until the times of the last iteration are known, and stores them in trace().
  void settle_times() { times_.settle(trace_); }
  TraceTimes& times() { return times_; }
  /// True where the moment begun last is the first of its iteration but for updates: the iteration begins with it, or
  /// begins anew.
  bool at_start() const;
  /// Moments of this iteration that have begun.
  std::uint64_t n_begun() const { return recording_.n_moments(); }

  bool in_iteration() const override { return n_begun() > 0; }
  bool on_trace() const override { return state_ != FollowState::astray && !trace_.empty(); }
  std::uint64_t next_use(ChunkId chunk, Tier tier) const override;
  void accessed(const Need& need) override;
  void arriving(ChunkId chunk, std::uint64_t n_bytes) override;
  void discarded(ChunkId chunk) override;
  void wait_begins() override { times_.clock().pause(); }
  void wait_ends() override { times_.clock().go_on(); }

 private:
  void take(FollowEvent event);
  bool is_next(Moment moment) const;
  bool begins_pass(Moment moment) const;
  std::uint64_t pass_over_updates(Moment moment);
  bool lacks_updates_alone() const;

  AccessTrace trace_;      ///< of the last iteration
  AccessTrace recording_;  ///< of this one
  TraceTimes times_;       ///< of trace_, and of recording_
  FollowState state_ = FollowState::fresh;
  bool repeated_ = false;
};

}  // namespace castor

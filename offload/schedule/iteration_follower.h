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
  rejoined,  ///< the same, after an iteration that broke off: updates that were made in that one are passed over
  astray,    ///< has made others; what it does is recorded as a trace of its own
};
inline constexpr std::size_t kNFollowStates = 3;

/// What happens to it.
enum class FollowEvent : std::uint8_t {
  followed,    ///< a moment begins that the trace has next
  strayed,     ///< a moment begins that the trace does not have next
  began_anew,  ///< such a moment is the trace's first: the iteration broke off and begins anew
  ended,       ///< the iteration is over, and is the trace now if it was another
  broke_off,   ///< the iteration is over and leaves the trace as it is
  expected,    ///< there is another trace, which no iteration has begun
};
inline constexpr std::size_t kNFollowEvents = 6;

/// The state that follows `state` at `event`. A moment of the trace cannot follow one that is not of it, so `followed` leaves an
/// iteration that went astray where it is.
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

/// Follows iterations as they come: records each, and knows from the one before (the trace) whether this one makes the same
/// accesses, and how long its moments take. An iteration that breaks off and begins anew (evaluation between two steps: forward
/// passes alone) is none; nor is one that ends before its updates, of a step that was skipped.
class IterationFollower final : public MoveGuide {
 public:
  /// Borrowed.
  explicit IterationFollower(const Timeline& timeline) : times_(timeline) {}

  /// A moment begins, which ends the one before. `timer`: as MomentClock::add. Returns how many moments are new in the recording:
  /// this one, after the updates that were passed over.
  std::uint64_t begin(Moment moment, std::span<const Need> needs, WorkTimer* timer);
  /// The needs of the moment under way are there, or on their way ahead of the compute stream's next work.
  void start() { times_.clock().start(); }
  /// The iteration is over; true where it went as the trace.
  bool end();
  /// The iteration is over and is not recorded: trace() stays as it is.
  void break_off();
  /// Iterations are expected to go as `trace` from now on; with an empty one nothing is known. Requires: between two iterations.
  void expect(AccessTrace trace);

  const AccessTrace& trace() const { return trace_; }
  /// Waits until the times of the last iteration are known, and takes them into trace().
  void settle_times() { times_.settle(trace_); }
  TraceTimes& times() { return times_; }
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
  std::uint64_t first_but_updates(std::uint64_t position) const;
  std::uint64_t pass_over_updates(Moment moment);
  bool lacks_updates_alone() const;

  AccessTrace trace_;      ///< of the last iteration
  AccessTrace recording_;  ///< of this one
  TraceTimes times_;       ///< of trace_, and of recording_
  FollowState state_ = FollowState::fresh;
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "iteration_follower.h"

#include <utility>

namespace castor {
namespace {

/// Moments after which an iteration is recorded no further: evaluation without a step, which does not repeat.
constexpr std::uint64_t kMostMoments = std::uint64_t{1} << 18;

/// The first position of `trace` from `position` on that is no update by the thread.
std::uint64_t first_but_updates(const AccessTrace& trace, std::uint64_t position) {
  const auto is_update = [&trace](std::uint64_t at) {
    return trace.moment(at).kind == MomentKind::update && !trace.moment(at).beside;
  };
  while (position < trace.n_moments() && is_update(position)) ++position;
  return position;
}

}  // namespace

void IterationFollower::take(FollowEvent event) {
  state_ = next_state(state_, event);
  if (event == FollowEvent::followed || event == FollowEvent::strayed) return;
  recording_.clear();
  times_.drop_iteration();
}

std::uint64_t IterationFollower::begin(Moment moment, std::span<const Need> needs, WorkTimer* timer) {
  times_.clock().stop();
  if (begins_pass(moment) && !is_next(moment)) take(FollowEvent::began_anew);
  const std::uint64_t n_passed = pass_over_updates(moment);
  take(is_next(moment) ? FollowEvent::followed : FollowEvent::strayed);
  if (n_begun() == kMostMoments) return 0;
  recording_.add(moment, needs);
  times_.begin_moment(timer);
  return n_passed + 1;
}

/// True where the iteration is on the trace and the trace has `moment` next.
bool IterationFollower::is_next(Moment moment) const {
  return state_ != FollowState::astray && n_begun() < trace_.n_moments() && trace_.moment(n_begun()) == moment;
}

/// True of the trace's first moment, and of its first moment that is no update.
bool IterationFollower::begins_pass(Moment moment) const {
  if (trace_.empty() || recording_.empty()) return false;
  const std::uint64_t first = first_but_updates(trace_, 0);
  return trace_.moment(0) == moment || (first < trace_.n_moments() && trace_.moment(first) == moment);
}

bool IterationFollower::at_start() const { return first_but_updates(recording_, 0) + 1 == n_begun(); }

/// Records the updates that the trace has right before `moment` as if they had occurred: a pass that broke off has made
/// them already, or a skipped step has left none.
std::uint64_t IterationFollower::pass_over_updates(Moment moment) {
  if (state_ != FollowState::rejoined || n_begun() >= trace_.n_moments() || is_next(moment)) return 0;
  const std::uint64_t begun = n_begun(), next = first_but_updates(trace_, begun);
  if (next == trace_.n_moments() || trace_.moment(next) != moment) return 0;
  for (std::uint64_t position = begun; position < next; ++position) recording_.repeat(trace_, position);
  return next - begun;
}

void IterationFollower::break_off() {
  times_.clock().stop();
  settle_times();
  take(FollowEvent::broke_off);
}

void IterationFollower::end() {
  repeated_ = lacks_updates_alone();
  if (repeated_) return break_off();
  times_.clock().stop();
  settle_times();
  repeated_ = recording_.same_accesses(trace_);
  if (!repeated_) {
    std::swap(trace_, recording_);
    times_.restart();
  }
  times_.end_iteration();
  take(FollowEvent::ended);
}

/// True where this iteration followed the trace up to its last updates and lacks them: its step was skipped.
bool IterationFollower::lacks_updates_alone() const {
  if (!on_trace() || n_begun() == 0 || n_begun() >= trace_.n_moments()) return false;
  for (std::uint64_t position = n_begun(); position < trace_.n_moments(); ++position)
    if (trace_.moment(position).kind != MomentKind::update) return false;
  return true;
}

void IterationFollower::expect(AccessTrace trace) {
  trace_ = std::move(trace);
  times_.restart();
  take(FollowEvent::expected);
}

std::uint64_t IterationFollower::next_use(ChunkId chunk, Tier tier) const {
  return on_trace() ? trace_.distance(chunk, tier, n_begun()) : AccessTrace::kNever;
}

void IterationFollower::accessed(const Need& need) {
  if (in_iteration()) recording_.add_need(need);
}

void IterationFollower::arriving(ChunkId chunk, std::uint64_t n_bytes) {
  if (in_iteration()) recording_.add_arrival(chunk, n_bytes);
}

void IterationFollower::discarded(ChunkId chunk) {
  if (in_iteration()) recording_.drop(chunk);
}

}  // namespace castor

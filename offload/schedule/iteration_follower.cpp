// SPDX-License-Identifier: Apache-2.0
#include "iteration_follower.h"

#include <algorithm>
#include <utility>

namespace castor {
namespace {

/// The moments of an iteration that are recorded. One with more (evaluation with no step in sight) is none that
/// repeats.
constexpr std::uint64_t kMostMoments = std::uint64_t{1} << 18;

/// Iterations that are timed: the first ones of a process are slower.
constexpr std::size_t kTimedIterations = 4;

/// By moment, the median of `iterations` (the lower of two), the first one left out where there are more.
std::vector<double> typical(const std::vector<MomentSeconds>& iterations, std::vector<double> MomentSeconds::*which) {
  std::vector<double> found;
  for (std::size_t m = 0; m < (iterations.front().*which).size(); ++m) {
    std::vector<double> times;
    for (std::size_t i = iterations.size() > 1 ? 1 : 0; i < iterations.size(); ++i)
      times.push_back((iterations[i].*which)[m]);
    std::sort(times.begin(), times.end());
    found.push_back(times[(times.size() - 1) / 2]);
  }
  return found;
}

}  // namespace

/// Where an iteration leaves the trace to begin anew, what was recorded of it is dropped.
std::uint64_t IterationFollower::begin(Moment moment, std::span<const Need> needs, WorkTimer* timer) {
  clock_.stop();
  if (begins_pass(moment) && !leads_to_trace(moment)) {
    clear_recording();
    broke_off_ = true;
  }
  const std::uint64_t n_passed = pass_over_updates(moment);
  on_trace_ = leads_to_trace(moment);
  if (n_begun() == kMostMoments) return 0;
  recording_.add(moment, needs);
  if (times_.size() + (ended_ ? 1 : 0) < kTimedIterations) clock_.add(timer);
  return n_passed + 1;
}

bool IterationFollower::leads_to_trace(Moment moment) const {
  return on_trace_ && n_begun() < trace_.n_moments() && trace_.moment(n_begun()) == moment;
}

/// True of the trace's first moment, and of the first that is no update.
bool IterationFollower::begins_pass(Moment moment) const {
  if (trace_.empty() || recording_.empty()) return false;
  const std::uint64_t first = first_but_updates(0);
  return trace_.moment(0) == moment || (first < trace_.n_moments() && trace_.moment(first) == moment);
}

/// From `position` on, of updates by the thread.
std::uint64_t IterationFollower::first_but_updates(std::uint64_t position) const {
  const auto is_update = [this](std::uint64_t at) {
    return trace_.moment(at).kind == MomentKind::update && !trace_.moment(at).beside;
  };
  while (position < trace_.n_moments() && is_update(position)) ++position;
  return position;
}

/// Those that the trace has right before `moment`, and that a pass which broke off has made already, or a step that was
/// skipped has not left behind. The iteration is not timed.
std::uint64_t IterationFollower::pass_over_updates(Moment moment) {
  if (!broke_off_ || !on_trace_ || n_begun() >= trace_.n_moments() || leads_to_trace(moment)) return 0;
  const std::uint64_t begun = n_begun(), next = first_but_updates(begun);
  if (next == trace_.n_moments() || trace_.moment(next) != moment) return 0;
  for (std::uint64_t position = begun; position < next; ++position) recording_.repeat(trace_, position);
  return next - begun;
}

void IterationFollower::clear_recording() {
  recording_.clear();
  clock_.clear();
  on_trace_ = true;
}

void IterationFollower::break_off() {
  clock_.stop();
  take_times();
  broke_off_ = true;
  clear_recording();
}

void IterationFollower::end() {
  if (lacks_updates_alone()) return again_ = true, break_off();
  clock_.stop();
  take_times();
  broke_off_ = false;
  again_ = recording_.same_accesses(trace_);
  if (!again_) {
    std::swap(trace_, recording_);
    times_.clear();
    timed_ = false;
  }
  ended_.emplace(std::exchange(clock_, MomentClock(timeline_)));
  clear_recording();
}

/// True where this iteration went the way of the trace and had no updates in the end: a step that was skipped.
bool IterationFollower::lacks_updates_alone() const {
  if (!steady() || n_begun() == 0 || n_begun() >= trace_.n_moments()) return false;
  for (std::uint64_t position = n_begun(); position < trace_.n_moments(); ++position)
    if (trace_.moment(position).kind != MomentKind::update) return false;
  return true;
}

void IterationFollower::take_times() {
  if (!ended_) return;
  auto seconds = ended_->seconds();
  ended_.reset();
  if (!seconds.ok() || seconds->compute.empty() || seconds->compute.size() != trace_.n_moments()) return;
  times_.push_back(std::move(*seconds));
  trace_.set_seconds({typical(times_, &MomentSeconds::compute), typical(times_, &MomentSeconds::thread)});
  timed_ = true;
}

bool IterationFollower::timed() const { return times_.size() == kTimedIterations; }

bool IterationFollower::timed_for_good() { return std::exchange(timed_, false) && timed(); }

void IterationFollower::forget() { expect({}); }

void IterationFollower::expect(AccessTrace trace) {
  trace_ = std::move(trace);
  times_.clear();
  ended_.reset();
  timed_ = false;
  broke_off_ = true;  // what comes has not begun anew either
  clear_recording();
}

}  // namespace castor

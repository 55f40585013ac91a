// SPDX-License-Identifier: Apache-2.0
#include "moment_clock.h"

namespace castor {

namespace {

double elapsed_s(std::uint64_t from_ns, std::uint64_t to_ns) { return static_cast<double>(to_ns - from_ns) * 1e-9; }

}  // namespace

void MomentClock::mark_work() {
  Timed& moment = moments_.back();
  moment.marks.push_back({moment.timer ? moment.timer->time() : nullptr, timeline_->now_ns()});
}

void MomentClock::add(WorkTimer* timer) {
  moments_.emplace_back().timer = timer;
  mark_thread();
}

void MomentClock::start() {
  if (moments_.empty() || moments_.back().state != State::preparing) return;
  mark_work();
  moments_.back().state = State::working;
}

void MomentClock::pause() {
  if (moments_.empty()) return;
  State& state = moments_.back().state;
  if (state == State::preparing_paused || state == State::working_paused) return;
  if (state == State::working) mark_work();
  mark_thread();
  state = state == State::working ? State::working_paused : State::preparing_paused;
}

void MomentClock::go_on() {
  if (moments_.empty()) return;
  State& state = moments_.back().state;
  if (state == State::preparing || state == State::working) return;
  if (state == State::working_paused) mark_work();
  mark_thread();
  state = state == State::working_paused ? State::working : State::preparing;
}

bool MomentClock::known_within(std::chrono::nanoseconds limit) const {
  for (const Timed& moment : moments_)
    for (std::size_t i = 0; i + 1 < moment.marks.size(); i += 2) {
      const Mark &begin = moment.marks[i], &end = moment.marks[i + 1];
      if (end.on_stream && !end.on_stream->known_since(*begin.on_stream, limit)) return false;
    }
  return true;
}

Result<double> MomentClock::compute_seconds(const Mark& begin, const Mark& end) {
  return end.on_stream ? end.on_stream->seconds_since(*begin.on_stream) : elapsed_s(begin.ns, end.ns);
}

Result<double> MomentClock::compute_seconds(const Timed& moment) {
  double total_s = 0;
  for (std::size_t i = 0; i + 1 < moment.marks.size(); i += 2) {
    CASTOR_ASSIGN(const double computed_s, compute_seconds(moment.marks[i], moment.marks[i + 1]));
    total_s += computed_s;
  }
  return total_s;
}

double MomentClock::thread_seconds(const Timed& moment) {
  double total_s = 0;
  for (std::size_t i = 0; i + 1 < moment.thread_ns.size(); i += 2)
    total_s += elapsed_s(moment.thread_ns[i], moment.thread_ns[i + 1]);
  return total_s;
}

Result<MomentSeconds> MomentClock::seconds() const {
  MomentSeconds seconds;
  for (const Timed& moment : moments_) {
    CASTOR_ASSIGN(const double compute_s, compute_seconds(moment));
    seconds.compute.push_back(compute_s);
    seconds.thread.push_back(thread_seconds(moment));
  }
  return seconds;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "moment_clock.h"

namespace castor {

void MomentClock::mark() {
  Timed& moment = moments_.back();
  moment.marks.push_back({moment.on_device ? compute_.time() : nullptr, timeline_.now_ns()});
}

void MomentClock::start() {
  if (!moments_.empty() && moments_.back().marks.empty()) mark();
}

void MomentClock::pause() {
  if (!moments_.empty() && moments_.back().computes()) mark();
}

void MomentClock::go_on() {
  if (!moments_.empty() && !moments_.back().marks.empty() && !moments_.back().computes()) mark();
}

double MomentClock::thread_seconds(const Mark& begin, const Mark& end) {
  return static_cast<double>(end.ns - begin.ns) * 1e-9;
}

Result<double> MomentClock::compute_seconds(const Mark& begin, const Mark& end) {
  return end.on_stream ? end.on_stream->seconds_since(*begin.on_stream) : thread_seconds(begin, end);
}

Result<MomentSeconds> MomentClock::seconds() const {
  MomentSeconds seconds;
  for (const Timed& moment : moments_) {
    double& compute_s = seconds.compute.emplace_back(0);
    double& thread_s = seconds.thread.emplace_back(0);
    for (std::size_t i = 0; i + 1 < moment.marks.size(); i += 2) {
      CASTOR_ASSIGN(const double computed_s, compute_seconds(moment.marks[i], moment.marks[i + 1]));
      compute_s += computed_s;
      thread_s += thread_seconds(moment.marks[i], moment.marks[i + 1]);
    }
  }
  return seconds;
}

}  // namespace castor

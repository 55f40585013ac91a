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

Result<double> MomentClock::between(const Mark& begin, const Mark& end) {
  if (end.on_stream) return end.on_stream->seconds_since(*begin.on_stream);
  return static_cast<double>(end.ns - begin.ns) * 1e-9;
}

Result<std::vector<double>> MomentClock::seconds() const {
  std::vector<double> seconds;
  for (const Timed& moment : moments_) {
    double& total_s = seconds.emplace_back(0);
    for (std::size_t i = 0; i + 1 < moment.marks.size(); i += 2) {
      CASTOR_ASSIGN(const double computed_s, between(moment.marks[i], moment.marks[i + 1]));
      total_s += computed_s;
    }
  }
  return seconds;
}

}  // namespace castor

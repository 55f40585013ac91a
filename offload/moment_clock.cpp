// SPDX-License-Identifier: Apache-2.0
#include "moment_clock.h"

namespace castor {

void MomentClock::start() {
  if (moments_.empty()) return;
  Timed& moment = moments_.back();
  if (moment.on_device)
    moment.begin = compute_.time();
  else
    moment.begin_ns = timeline_.now_ns();
}

void MomentClock::stop() {
  if (moments_.empty()) return;
  Timed& moment = moments_.back();
  if (moment.begin && !moment.end) moment.end = compute_.time();
  if (moment.begin_ns > 0 && moment.end_ns == 0) moment.end_ns = timeline_.now_ns();
}

Result<std::vector<double>> MomentClock::seconds() const {
  std::vector<double> seconds;
  for (const Timed& moment : moments_) {
    seconds.push_back(static_cast<double>(moment.end_ns - moment.begin_ns) * 1e-9);
    if (!moment.end) continue;
    CASTOR_ASSIGN(seconds.back(), moment.end->seconds_since(*moment.begin));
  }
  return seconds;
}

}  // namespace castor

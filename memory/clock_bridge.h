// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace castor {

/// Converts points of another clock to steady_now_ns(). Known of each point are its distance from the others, the
/// earliest time at which it can have been reached, and a time by which it was reached.
///
/// The two clocks drift apart by a few parts per million, and their offset cannot be read: every point that contradicts
/// the estimate so far corrects it. Points with close bounds make the estimate exact.
class ClockBridge {
 public:
  /// The base was not before `earliest_ns`.
  explicit ClockBridge(std::uint64_t earliest_ns) : base_ns_(static_cast<std::int64_t>(earliest_ns)) {}

  /// The time of the point `distance_s` after the base (before it where negative). Requires: `earliest_ns` <=
  /// `latest_ns`.
  std::uint64_t place(double distance_s, std::uint64_t earliest_ns, std::uint64_t latest_ns) {
    const std::int64_t distance_ns = std::llround(distance_s * 1e9);
    const std::int64_t thought_ns = base_ns_ + distance_ns;
    const std::int64_t ns =
        std::clamp(thought_ns, static_cast<std::int64_t>(earliest_ns), static_cast<std::int64_t>(latest_ns));
    base_ns_ += ns - thought_ns;
    return static_cast<std::uint64_t>(ns);
  }

  /// Makes the point `distance_s` after the base the base of later distances.
  void move_base(double distance_s) { base_ns_ += std::llround(distance_s * 1e9); }

 private:
  std::int64_t base_ns_;
};

}  // namespace castor

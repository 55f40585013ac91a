// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace castor {

/// Tells by steady_now_ns() when points of another clock were, of which it is known how far apart they are, and of each when
/// it cannot have been reached yet and when it was.
///
/// The two clocks run a few millionths apart, and how they stand is nowhere to be read: every point that contradicts what
/// was thought of it so far corrects that. Points whose bounds lie close together make it right.
class ClockBridge {
 public:
  /// The base was not before `earliest_ns`.
  explicit ClockBridge(std::uint64_t earliest_ns) : base_ns_(static_cast<std::int64_t>(earliest_ns)) {}

  /// Of the point `distance_s` after the base (before it where that is negative). Requires: `earliest_ns` <= `latest_ns`.
  std::uint64_t place(double distance_s, std::uint64_t earliest_ns, std::uint64_t latest_ns) {
    const std::int64_t distance_ns = std::llround(distance_s * 1e9);
    const std::int64_t thought_ns = base_ns_ + distance_ns;
    const std::int64_t ns =
        std::clamp(thought_ns, static_cast<std::int64_t>(earliest_ns), static_cast<std::int64_t>(latest_ns));
    base_ns_ += ns - thought_ns;
    return static_cast<std::uint64_t>(ns);
  }

  /// Distances are from now on from the point that was `distance_s` after the base.
  void move_base(double distance_s) { base_ns_ += std::llround(distance_s * 1e9); }

 private:
  std::int64_t base_ns_;
};

}  // namespace castor

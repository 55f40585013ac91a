// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <castor/memory/statistics.h>

namespace castor {

/// Durations of the last five steps with the same settings.
class RecentSteps {
 public:
  /// The least part of a median by which two of them differ: less cannot be told from chance.
  static constexpr double kLeastDifference = 0.02;

  RecentSteps() { forget(); }

  /// Records the end of a step.
  void note(std::uint64_t now_ns) {
    if (ended_ns_ != 0) last_s_[n_++ % last_s_.size()] = static_cast<double>(now_ns - ended_ns_) * 1e-9;
    ended_ns_ = now_ns;
  }
  /// Forgets the durations, because the next steps have other settings.
  void forget() { last_s_.fill(std::numeric_limits<double>::infinity()), n_ = 0; }

  /// The median of the last, since one of them may have waited for an unrelated cause; infinite where fewer than half of
  /// them were recorded.
  double median_s() const { return median({last_s_.begin(), last_s_.end()}); }
  /// True after five steps that followed the first. The first is not typical: it includes work of the steps before, or
  /// leaves work to the next.
  bool settled() const { return n_ > last_s_.size(); }

 private:
  static constexpr std::size_t kCounted = 5;

  std::uint64_t ended_ns_ = 0;
  std::array<double, kCounted> last_s_ = {};
  std::size_t n_ = 0;  ///< since forget()
};

}  // namespace castor

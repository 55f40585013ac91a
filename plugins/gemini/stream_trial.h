// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace castor {

/// Whether steps are shorter where a share of the states is updated on the device: tried once, when it is known what steps
/// take without, and given up where they are not.
class StreamTrial {
 public:
  enum class Phase : std::uint8_t { before, trying, over };

  /// A step has ended.
  void note_step(std::uint64_t now_ns) {
    before_last_s_ = last_s_;
    last_s_ = ended_ns_ == 0 ? kUnknown : static_cast<double>(now_ns - ended_ns_) * 1e-9;
    ended_ns_ = now_ns;
  }
  Phase phase() const { return phase_; }
  /// From the next step on.
  void begin() {
    phase_ = Phase::trying;
    without_s_ = recent_s();
    last_s_ = before_last_s_ = kUnknown;
  }
  void end() { phase_ = Phase::over; }
  double without_s() const { return without_s_; }  ///< a step before begin
  /// The shorter of the last two steps: one may have waited for something that has nothing to do with the other.
  double recent_s() const { return std::min(last_s_, before_last_s_); }

 private:
  static constexpr double kUnknown = std::numeric_limits<double>::infinity();

  Phase phase_ = Phase::before;
  std::uint64_t ended_ns_ = 0;
  double last_s_ = kUnknown, before_last_s_ = kUnknown, without_s_ = kUnknown;
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace castor {

/// Predicts whether the next norm will leave the gradients unscaled: yes, after enough such norms in a row. A wrong
/// prediction doubles the number that is enough; it is halved again after so many right ones that the wrong one is made
/// good.
class NormForecast {
 public:
  bool plain() const { return in_a_row_ >= enough_; }

  /// Records the next norm: plain, or it scaled gradients down or skipped the step.
  void note(bool was_plain) {
    if (plain()) judge(was_plain);
    in_a_row_ = was_plain ? in_a_row_ + 1 : 0;
  }

 private:
  static constexpr std::uint64_t kMostEnough = 64;
  /// Chosen, not measured: a step in which chunks are updated twice, without a plan, costs several times the gain of
  /// one step whose updates began early.
  static constexpr std::uint64_t kMadeGood = 8;

  void judge(bool right) {
    n_right_ = right ? n_right_ + 1 : 0;
    if (!right) enough_ = std::min(2 * enough_, kMostEnough);
    if (n_right_ < kMadeGood * enough_) return;
    enough_ = std::max<std::uint64_t>(enough_ / 2, 1);
    n_right_ = 0;
  }

  std::uint64_t in_a_row_ = 0, enough_ = 1;
  std::uint64_t n_right_ = 0;  ///< since enough_ changed
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace castor {

/// Whether the next norm will leave the gradients as they are: expected when enough in a row have. Where that was wrong twice
/// as many are enough from then on, and half as many again when it has been right so often that the wrong one is made good.
class NormForecast {
 public:
  bool plain() const { return in_a_row_ >= enough_; }

  /// What the next norm did: nothing, or it scaled gradients down or had the step skipped.
  void note(bool was_plain) {
    if (plain()) judge(was_plain);
    in_a_row_ = was_plain ? in_a_row_ + 1 : 0;
  }

 private:
  static constexpr std::uint64_t kMostEnough = 64;
  /// Chosen, not measured: chunks that are updated twice, in a step that is not planned, cost several times what one step
  /// gains by updates that began early.
  static constexpr std::uint64_t kMadeGood = 8;

  void judge(bool right) {
    n_right_ = right ? n_right_ + 1 : 0;
    if (!right) enough_ = std::min(2 * enough_, kMostEnough);
    if (n_right_ < kMadeGood * enough_) return;
    enough_ = std::max<std::uint64_t>(enough_ / 2, 1);
    n_right_ = 0;
  }

  std::uint64_t in_a_row_ = 0, enough_ = 1;
  std::uint64_t n_right_ = 0;  ///< since enough_ has changed
};

}  // namespace castor

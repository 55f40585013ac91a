// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "recent_steps.h"

namespace castor {

/// Searches the share of the states whose update on the device makes steps shortest: first no share, then the share
/// that a model of rates predicts, then smaller ones as long as each makes steps shorter than all before. Each is used
/// until enough steps are measured. The model predicts the gain well, but often a share that is more than the bus can
/// carry.
class StreamTrial {
 public:
  struct Tried {
    double share = 0, step_s = 0;
  };

  /// Records the end of a step.
  void note_step(std::uint64_t now_ns) { steps_.note(now_ns); }

  /// The share in use is another from the next step on.
  void begin_share() { steps_.forget(); }

  /// The duration of a step with the share in use, as judge() would record it.
  double step_s() const { return steps_.median_s(); }

  /// True where enough steps with the share in use are measured for judge().
  bool settled() const { return steps_.settled(); }

  bool begun() const { return !tried_.empty(); }
  bool over() const { return over_; }

  /// Records the duration of steps without streams. Returns the share to use next, `modelled`. The search is over where
  /// that is 0.
  double begin(double modelled) {
    over_ = modelled == 0;
    return note(0, modelled);
  }

  /// Records the duration of steps with the share in use. Returns the share to use next; once the search is over, the
  /// best one.
  double judge() {
    const double share = share_;
    note(share, share * (steps_.median_s() < without().step_s ? 2. / 3 : 1. / 2));
    const std::size_t n_shares = tried_.size() - 1;
    over_ = n_shares == kMostShares || (n_shares > 1 && best().share != share);
    return over_ ? best().share : share_;
  }

  const Tried& without() const { return tried_.front(); }
  const Tried& best() const {
    return *std::min_element(tried_.begin(), tried_.end(),
                             [](const Tried& a, const Tried& b) { return a.step_s < b.step_s; });
  }

 private:
  /// Each share costs four steps; if they could not be forecast, two without a plan and three or four with one.
  static constexpr std::size_t kMostShares = 4;

  double note(double share, double next) {
    tried_.push_back({share, steps_.median_s()});
    steps_.forget();
    return share_ = next;
  }

  bool over_ = false;
  double share_ = 0;  ///< the share on trial
  std::vector<Tried> tried_;
  RecentSteps steps_;
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "recent_steps.h"

namespace castor {

/// Searches the share of the states whose update on the device makes steps shortest: after no share the one that a model of
/// rates says, then smaller ones as long as each makes steps shorter than all before, each for as many steps as it takes to
/// know them. That model is right about what is to be gained, and often says more than the bus can carry.
class StreamTrial {
 public:
  struct Tried {
    double share = 0, step_s = 0;
  };

  /// A step has ended.
  void note_step(std::uint64_t now_ns) { steps_.note(now_ns); }

  /// What steps take with the share in use, as judge() would have it.
  double step_s() const { return steps_.median_s(); }

  /// Enough of them have, with the share in use and by a plan, for judge().
  bool settled() const { return steps_.settled(); }

  bool begun() const { return !tried_.empty(); }
  bool over() const { return over_; }

  /// It is known what steps take without. Returns the share to use from the next step on: `modelled`. The search is over
  /// where that is 0.
  double begin(double modelled) {
    over_ = modelled == 0;
    return note(0, modelled);
  }

  /// It is known what steps take with the last share. Returns that to use from the next step on; once the search is over, the
  /// best.
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
  /// Each costs four steps; where they could not be forecast two that are not planned, and three or four that are.
  static constexpr std::size_t kMostShares = 4;

  double note(double share, double next) {
    tried_.push_back({share, steps_.median_s()});
    steps_.forget();
    return share_ = next;
  }

  bool over_ = false;
  double share_ = 0;  ///< what is tried now
  std::vector<Tried> tried_;
  RecentSteps steps_;
};

}  // namespace castor

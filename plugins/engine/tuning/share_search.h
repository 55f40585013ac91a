// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>

namespace castor {

/// The share of the states to try, by forecasts: `step_s` is the duration of a step with a share, infinite where it
/// cannot be planned, `without_s` that of one without. Shares are a half times powers of 0.75, so that machines whose
/// rates differ little try the same ones. The search begins with the nearest to what a model of rates predicts, which
/// is often more than the bus can carry, and goes on to smaller ones as long as they have most of the gain of the best.
/// It finds the smallest of these: forecasts know the bus better than what its copies cost the host, so the less it
/// carries, the surer the gain. Where no share saves a tenth of `without_s`, the largest that costs nothing: a busy
/// team also slows the thread that trains, which no forecast knows. 0 where there is none.
inline double search_share(double modelled, double without_s, const std::function<double(double share)>& step_s) {
  constexpr double kLeastGain = 0.1, kMostOfIt = 0.6, kNext = 0.75, kHalf = 0.5, kNothing = 0.02;
  constexpr int kMostShares = 8;
  double best_s = 0, found = 0;  ///< the most that was saved; the last share that saved most of that
  double harmless = 0, share = kHalf * std::pow(kNext, std::round(std::log(modelled / kHalf) / std::log(kNext)));
  for (int n_tried = 0; n_tried < kMostShares; ++n_tried, share *= kNext) {
    const double saved_s = without_s - step_s(share);
    if (harmless == 0 && saved_s >= -kNothing * without_s) harmless = share;
    best_s = std::max(best_s, saved_s);
    if (best_s == 0) continue;
    if (saved_s < kMostOfIt * best_s) break;
    found = share;
  }
  return best_s < kLeastGain * without_s ? harmless : found;
}

}  // namespace castor

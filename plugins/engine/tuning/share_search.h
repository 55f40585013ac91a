// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

namespace castor {

/// The share of the states to stream, by forecasts: `step_s` is the duration of a step with a share, infinite where it
/// cannot be planned, `without_s` that of one without. The search begins with the share that a model of rates predicts, which is often more than the bus
/// can carry, and goes on to smaller ones as long as steps become shorter. 0 where no share saves a tenth of
/// `without_s`. Otherwise the smallest share with most of the gain of the best: forecasts know the bus better than what
/// its copies cost the host, so the less it carries, the surer the gain.
inline double search_share(double modelled, double without_s, const std::function<double(double share)>& step_s) {
  constexpr double kLeastGain = 0.1, kMostOfIt = 0.75, kNext = 0.75;
  constexpr double kNothingFits = -std::numeric_limits<double>::infinity();
  constexpr std::size_t kMostShares = 6;
  struct Forecast {
    double share, saved_s;
  };
  std::vector<Forecast> tried;
  double best_s = kNothingFits;  ///< saved
  for (double share = modelled; tried.size() < kMostShares; share *= kNext) {
    tried.push_back({share, without_s - step_s(share)});
    if (best_s > kNothingFits && tried.back().saved_s <= best_s) break;
    best_s = tried.back().saved_s;
  }
  if (best_s < kLeastGain * without_s) return 0;
  const auto smallest = std::find_if(tried.rbegin(), tried.rend(),
                                     [&](const Forecast& one) { return one.saved_s >= kMostOfIt * best_s; });
  return smallest->share;
}

}  // namespace castor

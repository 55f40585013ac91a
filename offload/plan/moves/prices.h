// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "room.h"

namespace castor {

/// The price of a byte per period on device and host, in seconds. It rises where a tier is overfull.
class Prices {
 public:
  explicit Prices(std::uint32_t n_moments);
  /// Requires: both tiers have equally many prices.
  explicit Prices(RoomPrices at);

  std::uint32_t n_moments() const { return static_cast<std::uint32_t>(at_[0].size()); }
  const RoomPrices& at() const { return at_; }
  double at(Tier tier, std::uint32_t moment) const { return at_[index(tier)][moment]; }
  /// The price of a byte in all of `periods` together, by tier.
  std::array<double, 2> sum(Periods periods) const {
    const auto &first = before_[periods.first], &end = before_[periods.first + periods.count];
    return {end[0] - first[0], end[1] - first[1]};
  }
  /// Requires: refresh() is called before the next sum.
  void set(Tier tier, std::uint32_t moment, double price) { at_[index(tier)][moment] = price; }
  void refresh();

 private:
  RoomPrices at_;
  std::vector<std::array<double, 2>> before_;  ///< by tier: sum of the prices before each moment, over two rounds
};

}  // namespace castor

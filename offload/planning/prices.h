// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "room.h"

namespace castor {

/// What a byte costs per period on device and host, in seconds. Rises where a tier is overfull.
class Prices {
 public:
  explicit Prices(std::uint32_t n_moments);

  std::uint32_t n_moments() const { return static_cast<std::uint32_t>(at_[0].size()); }
  double at(Tier tier, std::uint32_t moment) const { return at_[index(tier)][moment]; }
  double sum(Tier tier, Periods periods) const;
  /// Requires: refresh() before the next sum.
  void set(Tier tier, std::uint32_t moment, double price) { at_[index(tier)][moment] = price; }
  void refresh();

 private:
  std::array<std::vector<double>, 2> at_;
  std::array<std::vector<double>, 2> before_;  ///< sum of the prices before each moment, over two rounds
};

}  // namespace castor

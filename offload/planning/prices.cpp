// SPDX-License-Identifier: Apache-2.0
#include "prices.h"

namespace castor {

Prices::Prices(std::uint32_t n_moments) {
  for (auto& prices : at_) prices.assign(n_moments, 0);
  refresh();
}

double Prices::sum(Tier tier, Periods periods) const {
  const auto& before = before_[index(tier)];
  return before[periods.first + periods.count] - before[periods.first];
}

void Prices::refresh() {
  for (const Tier tier : kLimitedTiers) {
    const auto& prices = at_[index(tier)];
    auto& before = before_[index(tier)];
    before.assign(1, 0);
    for (std::size_t i = 0; i < 2 * prices.size(); ++i) before.push_back(before.back() + prices[i % prices.size()]);
  }
}

}  // namespace castor

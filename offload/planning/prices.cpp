// SPDX-License-Identifier: Apache-2.0
#include "prices.h"

namespace castor {

Prices::Prices(std::uint32_t n_moments) : before_(2 * std::size_t{n_moments} + 1) {
  for (auto& prices : at_) prices.assign(n_moments, 0);
  refresh();
}

void Prices::refresh() {
  const std::size_t n = at_[0].size();
  for (std::size_t i = 0; i < 2 * n; ++i)
    for (const std::size_t tier : {0, 1}) before_[i + 1][tier] = before_[i][tier] + at_[tier][i < n ? i : i - n];
}

}  // namespace castor

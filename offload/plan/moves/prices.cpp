// SPDX-License-Identifier: Apache-2.0
#include "prices.h"

#include <utility>

namespace castor {

Prices::Prices(std::uint32_t n_moments)
    : Prices({std::vector<double>(n_moments, 0), std::vector<double>(n_moments, 0)}) {}

Prices::Prices(RoomPrices at) : at_(std::move(at)), before_(2 * at_[0].size() + 1) { refresh(); }

void Prices::refresh() {
  const std::size_t n = at_[0].size();
  for (std::size_t i = 0; i < 2 * n; ++i)
    for (const std::size_t tier : {0, 1}) before_[i + 1][tier] = before_[i][tier] + at_[tier][i < n ? i : i - n];
}

}  // namespace castor

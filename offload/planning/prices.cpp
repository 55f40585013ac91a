// SPDX-License-Identifier: Apache-2.0
#include "prices.h"

#include <algorithm>
#include <limits>

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
  for (const Tier tier : {Tier::device, Tier::host}) {
    const auto& prices = at_[index(tier)];
    auto& before = before_[index(tier)];
    before.assign(1, 0);
    for (std::size_t i = 0; i < 2 * prices.size(); ++i) before.push_back(before.back() + prices[i % prices.size()]);
  }
}

namespace {

/// Calls `each(begin, end)` for the one or two stretches that `periods` are made of.
template <typename Each>
void stretches(Periods periods, std::size_t n_moments, const Each& each) {
  const std::size_t end = std::size_t{periods.first} + periods.count;
  each(periods.first, std::min(end, n_moments));
  if (end > n_moments) each(0, end - n_moments);
}

}  // namespace

std::int64_t Room::least(Tier tier, Periods periods) const {
  const auto& room = at_[index(tier)];
  auto least = std::numeric_limits<std::int64_t>::max();
  stretches(periods, room.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) least = std::min(least, room[i]);
  });
  return least;
}

void Room::add(Tier tier, Periods periods, std::int64_t n_bytes) {
  auto& room = at_[index(tier)];
  stretches(periods, room.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) room[i] += n_bytes;
  });
}

}  // namespace castor

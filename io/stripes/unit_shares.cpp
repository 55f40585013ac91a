// SPDX-License-Identifier: Apache-2.0
// share_units: the number of a value's units that each volume gets.
#include "stripe_layout.h"

#include <algorithm>
#include <cmath>

namespace castor {
namespace {

/// One volume while units are shared out.
struct Share {
  double wanted = 0;
  double ideal = 0;
  std::uint64_t most = 0;
  std::uint64_t n_units = 0;
  bool full = false;
};

/// The part of `n_units` that each volume which is not full would get if units could be split.
void set_ideals(std::span<Share> shares, std::uint64_t n_units) {
  double wanted = 0, n_open = 0;
  for (const auto& share : shares) {
    if (!share.full) wanted += share.wanted;
    if (!share.full) n_open += 1;
  }
  for (auto& share : shares)
    share.ideal = static_cast<double>(n_units) * (wanted > 0 ? share.wanted / wanted : 1 / n_open);
}

/// Fills the volumes whose ideal reaches their maximum; returns the units that are left for the others.
std::uint64_t fill_up(std::span<Share> shares, std::uint64_t n_units) {
  for (bool again = true; again;) {
    again = false;
    set_ideals(shares, n_units);
    for (auto& share : shares) {
      if (share.full || share.ideal < static_cast<double>(share.most)) continue;
      share.full = again = true;
      share.n_units = std::min(share.most, n_units);
      n_units -= share.n_units;
    }
  }
  return n_units;
}

/// Gives each of the other volumes the whole units of its ideal; returns the units that are left.
std::uint64_t give_whole(std::span<Share> shares, std::uint64_t n_units) {
  for (auto& share : shares) {
    if (share.full) continue;
    share.n_units = std::min({static_cast<std::uint64_t>(share.ideal), share.most, n_units});
    n_units -= share.n_units;
  }
  return n_units;
}

Share& largest_fraction(std::span<Share> shares) {
  const auto lacks = [](const Share& share) {
    return share.n_units < share.most ? share.ideal - static_cast<double>(share.n_units) : -HUGE_VAL;
  };
  return *std::max_element(shares.begin(), shares.end(),
                           [&](const Share& a, const Share& b) { return lacks(a) < lacks(b); });
}

}  // namespace

bool share_units(std::uint64_t n_units, std::span<const double> wanted, std::span<const std::uint64_t> most,
                 std::span<std::uint64_t> counts) {
  std::array<Share, kMostVolumes> room;
  const auto shares = std::span(room).first(counts.size());
  std::uint64_t n_possible = 0;
  for (std::size_t v = 0; v < counts.size(); ++v) {
    shares[v].wanted = std::max(wanted[v], 0.0);
    shares[v].most = most[v];
    n_possible += std::min(most[v], n_units - std::min(n_possible, n_units));
  }
  if (n_possible < n_units) return false;
  auto left = give_whole(shares, fill_up(shares, n_units));
  for (; left > 0; --left) ++largest_fraction(shares).n_units;
  std::transform(shares.begin(), shares.end(), counts.begin(), [](const Share& share) { return share.n_units; });
  return true;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <castor/memory/tier.h>

namespace castor {

/// Moments `first`, first + 1 … of an iteration that repeats, `count` of them: a period from each to the next.
struct Periods {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

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

/// Bytes per period on device and host: what is free, or what is used.
class Room {
 public:
  explicit Room(std::uint32_t n_moments)
      : at_{std::vector<std::int64_t>(n_moments), std::vector<std::int64_t>(n_moments)} {}

  std::int64_t at(Tier tier, std::uint32_t moment) const { return at_[index(tier)][moment]; }
  std::int64_t least(Tier tier, Periods periods) const;
  void add(Tier tier, Periods periods, std::int64_t n_bytes);

 private:
  std::array<std::vector<std::int64_t>, 2> at_;
};

}  // namespace castor

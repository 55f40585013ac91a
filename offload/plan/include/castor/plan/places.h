// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <castor/memory/tier.h>

namespace castor {

/// The tiers that hold a current copy of a chunk: a set, bit index(tier) per member. Empty = no contents.
using Places = std::uint8_t;

inline constexpr Places kNowhere = 0;
inline constexpr std::uint8_t kNPlaces = 1U << kNTiers;

inline constexpr Places kAnywhere = kNPlaces - 1;

constexpr Places only(Tier tier) { return static_cast<Places>(1U << index(tier)); }
constexpr bool holds(Places places, Tier tier) { return (places & only(tier)) != 0; }

/// `device+host`, as plans print them; `nowhere` for the empty set.
std::string name(Places places);

/// The links that a chunk's bytes cross, once each.
struct Hops {
  bool h2d = false, d2h = false, nvme_read = false, nvme_write = false;
  bool operator==(const Hops&) const = default;
};

/// The links that bytes cross when current copies in `from` become current copies in `to`. Copies between device and
/// NVMe pass the host; dropping copies costs nothing. Requires: `from` is not empty unless `to` is (ContractViolation).
Hops hops(Places from, Places to);

}  // namespace castor

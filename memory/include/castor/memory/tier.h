// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace castor {

/// Where bytes can live, fastest first. Placement fills the tiers in this order.
enum class Tier : std::uint8_t { device, host, nvme };

inline constexpr std::size_t kNTiers = 3;
inline constexpr std::array<Tier, kNTiers> kTiers = {Tier::device, Tier::host, Tier::nvme};

/// `device`, `host` or `nvme`, as options, logs and JSON spell them.
const char* name(Tier tier);

constexpr std::size_t index(Tier tier) { return static_cast<std::size_t>(tier); }

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

namespace castor {

/// The seconds that a byte takes on each link: the inverse of the measured rates.
struct LinkCosts {
  double h2d = 0, d2h = 0, nvme_read = 0, nvme_write = 0;
  /// The share of a byte's seconds to or from NVMe that the other direction loses: 0 where they are independent, 1
  /// where a drive reads and writes in turns.
  double nvme_share = 0;
};

/// Assumed where no rates were measured: 20 GB/s up and down, a drive of 2 GB/s that reads and writes in turns.
inline constexpr LinkCosts kUsualLinkCosts = {1 / 20e9, 1 / 20e9, 1 / 2e9, 1 / 2e9, 1};

/// Seconds by link: h2d, d2h, nvme_read, nvme_write.
using LinkSeconds = std::array<double, 4>;
inline constexpr LinkSeconds::size_type kH2d = 0, kD2h = 1, kNvmeRead = 2, kNvmeWrite = 3;
/// The names of the links, as the JSON of the commands spells them.
inline constexpr std::array<const char*, 4> kLinkNames = {"h2d", "d2h", "nvme_read", "nvme_write"};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include <castor/chunk/link_bytes.h>
#include <castor/plan/places.h>

namespace castor {

/// What a byte costs on each link, in seconds: the inverse of the measured rates.
struct LinkCosts {
  double h2d = 0, d2h = 0, nvme_read = 0, nvme_write = 0;
  /// Of what a byte costs on the way to or from NVMe, what the other way loses meanwhile: 0 where they are independent, 1
  /// where a drive reads and writes in turns.
  double nvme_share = 0;
};

/// What links carry where nobody has measured: 20 GB/s up and down, a drive of 2 GB/s that reads and writes in turns.
inline constexpr LinkCosts kUsualLinkCosts = {1 / 20e9, 1 / 20e9, 1 / 2e9, 1 / 2e9, 1};

/// Seconds by link: h2d, d2h, nvme_read, nvme_write.
using LinkSeconds = std::array<double, 4>;
inline constexpr LinkSeconds::size_type kH2d = 0, kD2h = 1, kNvmeRead = 2, kNvmeWrite = 3;
/// By link, as the JSON of the commands spells them.
inline constexpr std::array<const char*, 4> kLinkNames = {"h2d", "d2h", "nvme_read", "nvme_write"};

/// `n_bytes` over each of the links that `taken` goes over.
LinkBytes bytes_over(const Hops& taken, std::uint64_t n_bytes);

/// How long each link carries `moved`.
LinkSeconds seconds_of(const LinkBytes& moved, const LinkCosts& costs);

/// The same as if the links worked one after the other.
double sum(const LinkSeconds& seconds);

}  // namespace castor

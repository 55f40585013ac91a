// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include <castor/memory/tier.h>
#include <castor/plugins/abi.h>

namespace castor {

/// The links that a step moves bytes over.
enum class Link : std::uint8_t { h2d, d2h, nvme_read, nvme_write };
inline constexpr std::size_t kNLinks = 4;
inline constexpr std::array<Link, kNLinks> kLinks = {Link::h2d, Link::d2h, Link::nvme_read, Link::nvme_write};
/// h2d, d2h, nvme_read or nvme_write.
const char* name(Link link);
constexpr std::size_t index(Link link) { return static_cast<std::size_t>(link); }

/// The lower bound of a step.
struct Bound {
  double seconds = 0;
  std::string by;    ///< `compute`, `host_update`, a link, or `nvme`: the drives, both directions
  double share = 0;  ///< bound / median step: 1 = the step hides all other work
};

/// A strategy's counters at one moment, cumulative since its start.
struct RunStats {
  std::array<std::uint64_t, kNTiers> used_bytes{}, peak_bytes{};
  std::array<std::optional<std::uint64_t>, kNTiers> budget_bytes;  ///< empty = no limit
  std::array<std::uint64_t, kNLinks> moved_bytes{};
  double wait_seconds = 0;    ///< the training thread waited for data
  double update_seconds = 0;  ///< the training thread spent inside step
  Bound bound;                ///< as the strategy knows it, without its share; 0 if it does not
};

RunStats run_stats(const castor_stats& stats);

}  // namespace castor

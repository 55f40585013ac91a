// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "stripe_layout.h"

namespace castor {

/// The bytes that rounding to whole units owes each volume: its share of all bytes placed, less the bytes that it got.
///
/// Invariant: a debt is at most 16 blocks, either way, so that a volume that was full catches up on no more than that.
/// Threads: any.
class StripeDebts {
 public:
  StripeDebts(std::size_t n_volumes, std::uint64_t block_bytes);

  /// Adds each volume's debt to `wanted_bytes`.
  void add_to(std::span<double> wanted_bytes) const;
  /// Counts a placement of which volume v should have had the part shares[v].
  void count(std::span<const double> shares, const Placement& placement) { change(shares, placement, 1); }
  /// Undoes `count` of a placement that failed, as far as the bound on a debt allows.
  void take_back(std::span<const double> shares, const Placement& placement) { change(shares, placement, -1); }

 private:
  void change(std::span<const double> shares, const Placement& placement, std::int64_t sign);

  const std::int64_t most_bytes_;
  mutable std::mutex mutex_;
  std::vector<std::int64_t> owed_bytes_;
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace castor::bench {

/// The rates that one value of the setting under search yields.
struct Tried {
  std::uint64_t setting = 0;  ///< bytes of a block, requests in flight, or threads
  double read_bytes_per_s = 0;
  double write_bytes_per_s = 0;

  /// Bytes per second of reading and writing the same amount: 2 ÷ (1 ÷ read + 1 ÷ write).
  double both_bytes_per_s() const;
};

/// The smallest setting among those within 3 % of the fastest. Requires: at least one (ContractViolation).
const Tried& smallest_good(const std::vector<Tried>& tried);

}  // namespace castor::bench

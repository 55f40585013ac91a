// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace castor::bench {

/// Files of equal size on the drives that are measured: the store's own, or some beside them.
struct Region {
  std::vector<int> files;  ///< descriptors of this process
  std::uint64_t file_bytes = 0;
  bool direct = true;  ///< opened past the page cache
};

}  // namespace castor::bench

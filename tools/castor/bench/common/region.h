// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace castor::bench {

/// Files of equal size on the measured drives: the store's own, or files beside them.
struct Region {
  std::vector<int> files;  ///< descriptors of this process
  std::uint64_t file_bytes = 0;
  bool direct = true;  ///< opened with O_DIRECT
};

}  // namespace castor::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace castor {

/// Values `first` to `first` + n − 1 of one tensor in host memory: fp32, or of a tensor of bytes (DType::u8) those alone.
struct StateValues {
  std::uint64_t first = 0, n = 0;
  float* master = nullptr;
  float *exp_avg = nullptr,
        *exp_avg_sq = nullptr;  ///< may be null; a frozen tensor has none, and some rules no exp_avg_sq
  std::uint64_t n_updates = 0;  ///< of the whole tensor: Adam's t
  std::byte* bytes = nullptr;   ///< of a tensor of bytes, of which everything else is empty
};

}  // namespace castor

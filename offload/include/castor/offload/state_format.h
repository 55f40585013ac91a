// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <castor/offload/adam.h>

namespace castor {

/// fp32, mixed or bf16.
std::string name(AdamMoments moments);
/// The reverse. Errors: usage.
Result<AdamMoments> parse_adam_moments(const std::string& text);

/// How the optimizer states of trained tensors are kept, the same on every tier. The bits of a training depend on
/// `moments` and `rounding_seed`, never on `split_master`.
struct StateFormat {
  /// Masters of bf16 weights as their low 16 bits, which with the weight restore them.
  bool split_master = false;
  AdamMoments moments = AdamMoments::f32;
  std::uint64_t rounding_seed = 0;

  constexpr bool splits(DType weights) const { return split_master && weights == DType::bf16; }
  /// Master, exp_avg and exp_avg_sq of one element whose weight is of that dtype: 12, or down to 6.
  constexpr std::uint32_t bytes_per_element(DType weights) const {
    return (splits(weights) ? 2 : 4) +
           static_cast<std::uint32_t>(size_bytes(exp_avg_dtype(moments)) + size_bytes(exp_avg_sq_dtype(moments)));
  }
};

}  // namespace castor

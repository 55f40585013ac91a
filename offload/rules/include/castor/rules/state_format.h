// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <castor/rules/adam.h>

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
  /// A rule with one moment (SGD) has it in exp_avg, and nothing is kept of exp_avg_sq.
  bool keeps_exp_avg_sq = true;

  constexpr bool splits(DType weights) const { return split_master && weights == DType::bf16; }
  /// Master and moments of one element whose weight is of that dtype: with both 12, or down to 6; with one 8, or down to 4.
  constexpr std::uint32_t bytes_per_element(DType weights) const {
    const std::uint64_t second = keeps_exp_avg_sq ? size_bytes(exp_avg_sq_dtype(moments)) : 0;
    return (splits(weights) ? 2 : 4) + static_cast<std::uint32_t>(size_bytes(exp_avg_dtype(moments)) + second);
  }
  bool operator==(const StateFormat&) const = default;
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/rules/moment_format.h>

namespace castor {

/// How the optimizer states of trained tensors are kept, the same on every tier. The bits of a training depend on
/// `moments` and `rounding_seed`, never on `split_master`.
struct StateFormat {
  /// Masters of bf16 weights are kept as their low 16 bits; together with the weight these restore the master.
  bool split_master = false;
  MomentFormat moments = MomentFormat::f32;
  std::uint64_t rounding_seed = 0;
  /// False for a rule with one moment (SGD): exp_avg holds it, and exp_avg_sq is not kept.
  bool keeps_exp_avg_sq = true;
  /// Masters of fp32 weights are the weights themselves, and not kept again.
  bool fp32_is_master = false;

  constexpr bool splits(DType weights) const { return split_master && weights == DType::bf16; }
  constexpr bool keeps_master(DType weights) const { return !fp32_is_master || weights != DType::f32; }
  /// Bytes of the master and the moments of one element with a weight of dtype `weights`: 12 down to 6 with two
  /// moments, 8 down to 4 with one, and 4 less where an fp32 weight is its master.
  constexpr std::uint32_t bytes_per_element(DType weights) const {
    const std::uint64_t second = keeps_exp_avg_sq ? size_bytes(exp_avg_sq_dtype(moments)) : 0;
    return (splits(weights)         ? 2
            : keeps_master(weights) ? 4
                                    : 0) +
           static_cast<std::uint32_t>(size_bytes(exp_avg_dtype(moments)) + second);
  }
  bool operator==(const StateFormat&) const = default;
};

}  // namespace castor

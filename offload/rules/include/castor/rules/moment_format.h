// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <castor/memory/dtype.h>
#include <castor/memory/result.h>

namespace castor {

/// The dtypes of exp_avg and exp_avg_sq. Kernels widen the values that they read, and round once, after the whole
/// update.
///
/// exp_avg in bf16 is rounded to nearest. exp_avg_sq cannot be, because it decays by less than half a unit: it is
/// rounded up or down at random, the more often up the nearer the upper value is. The random bits follow from the seed,
/// the tensor, the number of its update and the element alone.
enum class MomentFormat : std::uint8_t {
  f32,    ///< both fp32
  mixed,  ///< exp_avg in bf16, exp_avg_sq in fp32
  bf16,   ///< both bf16
};

constexpr DType exp_avg_dtype(MomentFormat moments) { return moments == MomentFormat::f32 ? DType::f32 : DType::bf16; }
constexpr DType exp_avg_sq_dtype(MomentFormat moments) {
  return moments == MomentFormat::bf16 ? DType::bf16 : DType::f32;
}

/// fp32, mixed or bf16.
std::string name(MomentFormat moments);
/// The reverse. Errors: usage.
Result<MomentFormat> parse_moment_format(const std::string& text);

}  // namespace castor

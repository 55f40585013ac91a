// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include <castor/memory/dtype.h>

/// The 16-bit formats straight from their definitions, in fp64 and without bit tricks, for comparison with the kernels.
namespace castor::testing {

inline std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
inline float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// The value of a pattern with `n_fraction_bits` below an exponent field of bias `bias`; NaN and infinity where that
/// field is all ones (`top`).
double naive_value(std::uint16_t bits, int n_fraction_bits, int bias, int top);
inline double naive_f16_value(std::uint16_t bits) { return naive_value(bits, 10, 15, 31); }
inline double naive_bf16_value(std::uint16_t bits) { return naive_value(bits, 7, 127, 255); }

/// The nearest of all values of the format, found by comparing distances. A bf16 tie rounds away from zero, an fp16 tie
/// to the even pattern.
std::uint16_t naive_bf16(float value);
std::uint16_t naive_f16(float value);

/// The value of an element of `dtype` as a float.
float naive_widen(const void* elements, DType dtype, std::uint64_t i);

}  // namespace castor::testing

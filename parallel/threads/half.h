// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace castor {

/// 16-bit floats as their bit patterns, to fp32 (exact) and back (to nearest, ties to even). Every NaN becomes the one
/// quiet, positive NaN. Integer arithmetic where rounding happens, so that the bits do not depend on the compiler.

inline float bf16_to_float(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

inline std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return 0x7fc0;
  const std::uint32_t to_even = (bits >> 16) & 1;
  return static_cast<std::uint16_t>((bits + 0x7fff + to_even) >> 16);
}

inline float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16, exponent = (bits >> 10) & 31, fraction = bits & 0x3ff;
  if (exponent == 0)
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24f));
  const std::uint32_t wide_exponent = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide_exponent << 23 | fraction << 13);
}

inline std::uint16_t float_to_f16(float value) {
  constexpr std::uint32_t kInfinityFrom =
      0x477ff000;  // 65520: halfway between the largest fp16 and the next power of two
  constexpr std::uint32_t kNormalFrom = 0x38800000;  // 2^-14
  if (value != value) return 0x7e00;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 31 << 15, magnitude = bits & 0x7fffffff;
  if (magnitude >= kInfinityFrom) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (magnitude >= kNormalFrom) {
    const std::uint32_t to_even = (magnitude >> 13) & 1;
    return static_cast<std::uint16_t>(sign | ((magnitude + 0xfff + to_even - ((127u - 15u) << 23)) >> 13));
  }
  // Added to 0.5, whose last place is worth 2^-24, a magnitude below 2^-14 is rounded to whole units of the smallest
  // fp16.
  const auto units =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<std::uint32_t>(0.5f);
  return static_cast<std::uint16_t>(sign | units);
}

}  // namespace castor

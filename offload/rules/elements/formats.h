// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include <castor/memory/dtype.h>
#include <castor/memory/result.h>

/// The element types that the kernels read and write: `widen` to fp32 is exact, `narrow` rounds. Everything is
/// constexpr and all rounding is integer arithmetic, so that host and GPU compile the same lines, and the caller's
/// rounding mode and flush-to-zero have no effect.
namespace castor::kernels {

inline constexpr std::uint32_t kSignBit = 0x80000000;
inline constexpr std::uint32_t kInfinityBits = 0x7f800000;
inline constexpr std::uint32_t kNanBits = 0x7fc00000;

constexpr std::uint32_t magnitude_bits(float value) { return std::bit_cast<std::uint32_t>(value) & ~kSignBit; }

/// `value`, or the only NaN that is ever stored: processors disagree on the bits of the NaNs they make.
constexpr float canonical(float value) {
  return std::bit_cast<float>(magnitude_bits(value) > kInfinityBits ? kNanBits : std::bit_cast<std::uint32_t>(value));
}

/// `value` / 2^`shift` to the nearest integer, ties to even. Requires: 0 < shift < 32, and value + 2^shift fits.
constexpr std::uint32_t shift_to_nearest_even(std::uint32_t value, std::uint32_t shift) {
  const std::uint32_t below_half = (1u << (shift - 1)) - 1;
  return (value + below_half + ((value >> shift) & 1u)) >> shift;
}

struct Fp32 {
  using Bits = float;
  static constexpr float widen(Bits stored) { return stored; }
  static constexpr Bits narrow(float value) { return value; }
};

struct Bf16 {
  using Bits = std::uint16_t;
  static constexpr float widen(Bits stored) { return std::bit_cast<float>(static_cast<std::uint32_t>(stored) << 16); }

  /// Nearest, ties away from zero: adding half a unit to the magnitude carries into the exponent as it should, up to
  /// infinity.
  static constexpr Bits narrow(float value) {
    const std::uint32_t rounded = (std::bit_cast<std::uint32_t>(value) + 0x8000u) >> 16;
    return static_cast<Bits>(magnitude_bits(value) > kInfinityBits ? kNanBits >> 16 : rounded);
  }
};

/// The bits of a float that its bf16 does not hold.
constexpr std::uint16_t low_bits(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value));
}

/// The float with these bf16 and low bits: it was rounded away from zero where the low bits are half a unit or more.
constexpr float joined(std::uint16_t bf16, std::uint16_t low) {
  return std::bit_cast<float>((static_cast<std::uint32_t>(bf16 - (low >> 15)) << 16) | low);
}

/// A hash of which each bit depends on all bits of `value`. Source: C. Wellons, "Prospecting for hash functions", 2018
/// (lowbias32).
constexpr std::uint32_t mixed(std::uint32_t value) {
  value = (value ^ (value >> 16)) * 0x7feb352du;
  value = (value ^ (value >> 15)) * 0x846ca68bu;
  return value ^ (value >> 16);
}

/// The number that is added to the bits of element `i` before those below bf16 are cut off: uniform in 0 to 2^16 − 1.
constexpr std::uint32_t rounding_bits(std::uint32_t key, std::uint32_t i) { return mixed(i ^ key) >> 16; }

/// Rounds up or down at random, the more often up the nearer the upper value is. Requires: `value` is canonical.
constexpr std::uint16_t narrow_at_random(float value, std::uint32_t bits) {
  return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(value) + bits) >> 16);
}

struct Fp16 {
  using Bits = std::uint16_t;

  /// Subnormals are multiples of 2^-24, an exact product that is no subnormal in fp32.
  static constexpr float widen(Bits stored) {
    const std::uint32_t sign = static_cast<std::uint32_t>(stored & 0x8000u) << 16;
    const std::uint32_t magnitude = stored & 0x7fffu;
    const std::uint32_t normal = (magnitude << 13) + (magnitude < kInfinity ? kRebias : 2 * kRebias);
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
    return std::bit_cast<float>(sign | (magnitude < kSmallestNormal ? subnormal : normal));
  }

  /// Nearest, ties to even; infinity from 65520 on.
  static constexpr Bits narrow(float value) {
    const std::uint32_t magnitude = magnitude_bits(value);
    const std::uint32_t sign = (std::bit_cast<std::uint32_t>(value) & kSignBit) >> 16;
    if (magnitude > kInfinityBits) return 0x7e00;
    if (magnitude >= kOverflow) return static_cast<Bits>(sign | kInfinity);
    if (magnitude >= kSmallestNormalInF32)
      return static_cast<Bits>(sign | shift_to_nearest_even(magnitude - kRebias, 13));
    return static_cast<Bits>(sign | subnormal_bits(magnitude));
  }

 private:
  static constexpr std::uint32_t kInfinity = 0x7c00;
  static constexpr std::uint32_t kSmallestNormal = 0x0400;
  static constexpr std::uint32_t kRebias = 112u << 23;               ///< exponent bias 127 against 15
  static constexpr std::uint32_t kSmallestNormalInF32 = 0x38800000;  ///< 2^-14
  static constexpr std::uint32_t kOverflow = 0x477ff000;  ///< 65520, half-way to the first value out of range

  /// Counts the units of 2^-24: the 24-bit significand times 2^(exponent - 126). A shift of 25 or more leaves 0.
  static constexpr std::uint32_t subnormal_bits(std::uint32_t magnitude) {
    const std::uint32_t exponent = magnitude >> 23;
    const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
    const std::uint32_t shift = exponent < 101 ? 25 : 126 - exponent;
    return shift_to_nearest_even(significand, shift);
  }
};

/// Calls `f` with the format of `dtype`: one instantiation per element type.
template <typename F>
decltype(auto) with_format(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(Fp32{});
    case DType::bf16: return f(Bf16{});
    case DType::f16: return f(Fp16{});
    case DType::u8: break;
  }
  throw ContractViolation("kernels: element type " + std::to_string(static_cast<int>(dtype)) +
                          " is none of fp32, bf16, fp16");
}

}  // namespace castor::kernels

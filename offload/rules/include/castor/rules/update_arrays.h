// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <castor/memory/dtype.h>
#include <castor/rules/moment_format.h>
#include <castor/rules/registered_id.h>

/// The parts that updates by every rule have in common: their arrays, and the rounding of masters to weights.
namespace castor {

/// The AdamCoefficients::rounding_key of the `t`-th update of `tensor`.
std::uint32_t rounding_key(std::uint64_t seed, RegisteredId tensor, std::uint64_t t);

/// The arrays of one update, by every rule. All have `n` elements and are on the tier where the kernel runs. On the host
/// an fp32 weight may be its own master, at the same address.
///
/// A split master is kept as its low 16 bits; together with the weight in bf16 they restore it exactly. Rules with one
/// moment keep it in exp_avg, and exp_avg_sq is null.
struct UpdateArrays {
  float* master = nullptr;     ///< read and written; null where it is split
  void* exp_avg = nullptr;     ///< read and written; its dtype follows from `moments`
  void* exp_avg_sq = nullptr;  ///< read and written; likewise
  const void* grad = nullptr;  ///< read; `grad_dtype`
  void* weight = nullptr;      ///< written: the master rounded to `weight_dtype`; read too where the master is split
  DType grad_dtype = DType::f32;
  DType weight_dtype = DType::f32;
  std::uint64_t n = 0;
  std::uint16_t* master_low = nullptr;  ///< the low bits of a split master, read and written; else null
  MomentFormat moments = MomentFormat::f32;
  std::uint32_t first = 0;  ///< the number of the first element in its tensor, modulo 2^32
  /// The old states, and the old weight, are read this many bytes from the new ones and stay as they are; 0 = the
  /// update is in place.
  std::ptrdiff_t old_states = 0, old_weight = 0;

  /// The elements from `first` on, `count` of them; arrays that are null stay null. Requires: they exist.
  UpdateArrays part(std::uint64_t first, std::uint64_t count) const;
};

/// Bytes of memory that an update of these arrays reads and writes: the states both ways, the gradient once, the weights
/// once, and twice where their masters are split.
std::uint64_t touched_bytes(const UpdateArrays& arrays);
/// Bytes that a measure of the direction reads: states, gradient, and the weights of split masters.
std::uint64_t measured_bytes(const UpdateArrays& arrays);

/// Elements that a thread of a team updates, by any rule, before it looks for the most urgent update: 0.9 MiB of fp32
/// states, 16-bit gradients and weights, about 0.1 ms.
inline constexpr std::uint64_t kUpdatePartElements = std::uint64_t{32} << 10;

/// Rounds `n` masters to `dtype` as the update does; fp32 is copied. Host memory.
void round_weights(const float* master, DType dtype, void* weight, std::uint64_t n);

/// The reverse. Host memory.
void widen_weights(const void* weight, DType dtype, float* out, std::uint64_t n);

/// Splits `n` masters, whose NaNs are canonical, into bf16 weights and low bits. Host memory.
void split_masters(const float* master, std::uint16_t* weight, std::uint16_t* master_low, std::uint64_t n);
/// The reverse. Host memory.
void join_masters(const std::uint16_t* weight, const std::uint16_t* master_low, float* master, std::uint64_t n);

/// One master rounded to bf16: nearest, ties away from zero, NaN becomes 0x7fc0 with its sign dropped.
std::uint16_t round_to_bf16(float value);
/// One master rounded to fp16: nearest, ties to even, overflow to infinity, NaN becomes 0x7e00.
std::uint16_t round_to_f16(float value);
float bf16_to_float(std::uint16_t bits);
float f16_to_float(std::uint16_t bits);

}  // namespace castor

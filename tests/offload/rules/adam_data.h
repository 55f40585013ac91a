// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include <castor/rules/update_rule.h>

namespace castor::testing {

inline constexpr DType kAllTypes[] = {DType::f32, DType::bf16, DType::f16};

/// The arrays of one update in ordinary memory. Gradient and weight have as many bytes as their dtypes need.
struct AdamData {
  AdamData(std::uint64_t n, DType grad_dtype, DType weight_dtype);
  std::uint64_t n() const { return master.size(); }
  UpdateArrays arrays();

  DType grad_dtype, weight_dtype;
  std::vector<float> master, exp_avg, exp_avg_sq;
  std::vector<std::uint8_t> grad, weight;
};

/// Zeros of both signs, subnormals, the ends of the range, infinities, NaNs of several patterns, and values whose
/// square or quotient leaves the range.
const std::vector<float>& hard_values();

/// `n` elements: about every fourth is a hard value, the others are spread over 2^-40 … 2^10.
AdamData random_data(std::mt19937_64& random, std::uint64_t n, DType grad_dtype, DType weight_dtype);

/// Updates one element after the other in fp32, each operation rounded on its own: the formulas of adam.h, written
/// again.
void straight_line_update(const AdamCoefficients& c, AdamData& data);

/// The same for SGD by the formulas of sgd.h; exp_avg is the momentum, exp_avg_sq stays.
void straight_line_update(const SgdCoefficients& c, AdamData& data);

/// The same for LAMB by the formulas of lamb.h.
void straight_line_update(const LambCoefficients& c, AdamData& data);
/// r of LAMB's update, by element.
std::vector<float> straight_line_direction(const LambCoefficients& c, const AdamData& data);

/// The arrays of one update in their stored format.
struct PackedAdam {
  /// Requires: the moments of `data` are exact in their dtypes.
  PackedAdam(const AdamData& data, bool split_master, MomentFormat moments);
  UpdateArrays arrays();
  AdamData unpacked() const;

  DType grad_dtype, weight_dtype;
  bool split_master;
  MomentFormat moments;
  std::uint64_t n;
  std::vector<std::uint8_t> master, exp_avg, exp_avg_sq, grad, weight;  ///< master: the low bits where it is split
};

/// Rounds the moments of `data` to values that their dtypes hold exactly.
void make_exact(AdamData& data, MomentFormat moments);

/// straight_line_update with stored moments: these are rounded after the whole update, exp_avg_sq at random by the
/// definition of that rounding, written again.
void straight_line_update(const AdamCoefficients& c, AdamData& data, MomentFormat moments);

/// The same for SGD, whose momentum is rounded to nearest where exp_avg is bf16; for LAMB; and for any rule.
void straight_line_update(const SgdCoefficients& c, AdamData& data, MomentFormat moments);
void straight_line_update(const LambCoefficients& c, AdamData& data, MomentFormat moments);
void straight_line_update(const UpdateCoefficients& c, AdamData& data, MomentFormat moments);

/// The sum of squares of grad_norm.h: block by block its lanes one by one, folded as a tree.
double naive_sum_of_squares(const std::vector<float>& values);
/// λ of trust_ratio.h in fp64, rounded once.
float naive_trust(const TrustTerms& terms, const std::vector<float>& weights, const std::vector<float>& gradient);

/// Fails with the first element where the bits differ.
void expect_same_bits(const AdamData& got, const AdamData& wanted);

}  // namespace castor::testing

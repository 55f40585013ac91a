// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include <castor/rules/update_rule.h>

namespace castor::testing {

inline constexpr DType kAllTypes[] = {DType::f32, DType::bf16, DType::f16};

/// The arrays of one update in ordinary memory. Gradient and weight are as many bytes as their types need.
struct AdamData {
  AdamData(std::uint64_t n, DType grad_dtype, DType weight_dtype);
  std::uint64_t n() const { return master.size(); }
  AdamArrays arrays();

  DType grad_dtype, weight_dtype;
  std::vector<float> master, exp_avg, exp_avg_sq;
  std::vector<std::uint8_t> grad, weight;
};

/// Zeros of both signs, subnormals, the ends of the range, infinities, NaNs of several patterns, and values whose
/// square or quotient leaves the range.
const std::vector<float>& hard_values();

/// `n` elements, of which every fourth or so is a hard value and the rest spread over 2^-40 … 2^10.
AdamData random_data(std::mt19937_64& random, std::uint64_t n, DType grad_dtype, DType weight_dtype);

/// One update after another in fp32, each operation rounded on its own: the formulas of adam.h, written down once more.
void straight_line_update(const AdamCoefficients& c, AdamData& data);

/// One update by SGD likewise, of sgd.h; exp_avg is its momentum, exp_avg_sq stays.
void straight_line_update(const SgdCoefficients& c, AdamData& data);

/// One update by LAMB likewise, of lamb.h.
void straight_line_update(const LambCoefficients& c, AdamData& data);
/// r of that update, by element.
std::vector<float> straight_line_direction(const LambCoefficients& c, const AdamData& data);

/// The arrays of one update as they are stored.
struct PackedAdam {
  /// Requires: what `data` holds of the moments is exact in their dtypes.
  PackedAdam(const AdamData& data, bool split_master, AdamMoments moments);
  AdamArrays arrays();
  AdamData unpacked() const;

  DType grad_dtype, weight_dtype;
  bool split_master;
  AdamMoments moments;
  std::uint64_t n;
  std::vector<std::uint8_t> master, exp_avg, exp_avg_sq, grad, weight;  ///< master: its low bits where it is split
};

/// Cuts the moments of `data` down to what their dtypes hold.
void make_exact(AdamData& data, AdamMoments moments);

/// straight_line_update of such arrays: the moments are rounded when all else is done, those at random by the definition
/// of a random rounding, written down once more.
void straight_line_update(const AdamCoefficients& c, AdamData& data, AdamMoments moments);

/// The same of SGD, whose momentum is rounded to nearest where exp_avg is bf16; of LAMB; and of any rule.
void straight_line_update(const SgdCoefficients& c, AdamData& data, AdamMoments moments);
void straight_line_update(const LambCoefficients& c, AdamData& data, AdamMoments moments);
void straight_line_update(const UpdateCoefficients& c, AdamData& data, AdamMoments moments);

/// The sum of squares of grad_norm.h: block by block its lanes one by one, folded as a tree.
double naive_sum_of_squares(const std::vector<float>& values);
/// λ of trust_ratio.h in fp64, rounded once.
float naive_trust(const TrustTerms& terms, const std::vector<float>& weights, const std::vector<float>& gradient);

/// Fails with the first element where the bits differ.
void expect_same_bits(const AdamData& got, const AdamData& wanted);

}  // namespace castor::testing

// SPDX-License-Identifier: Apache-2.0
#include "host/lamb_loops.h"

#include <algorithm>
#include <cmath>

#include "elements/formats.h"
#include "elements/lamb_element.h"
#include "host/norm_tree.h"

// Highway compiles the code below once for each kind of vectors, by including this file again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamb_loops.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "adam_moments-inl.h"
#include "update_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::HWY_NAMESPACE {

using Math = AdamMath</*kUsual=*/false>;

/// lamb_direction with vectors.
HWY_INLINE Float direction(const Math& math, const AdamVector& e, Float root) {
  return hn::Add(hn::Mul(math.step_size, math.moment_ratio(e, root)), hn::Mul(math.decay, e.p));
}

/// lamb_element.h with vectors.
struct LambRule {
  using Coefficients = LambCoefficients;
  static constexpr bool kKeepsExpAvgSq = true;

  explicit HWY_INLINE LambRule(const LambCoefficients& c) : math(c.adam), rate(all(lamb_rate(c))) {}

  template <bool kPastCaches, typename Arrays>
  HWY_INLINE Math::Begun begin(const Arrays& arrays, std::uint64_t i) const {
    return math.begin<kPastCaches>(arrays, i);
  }

  HWY_INLINE Float end(const Math::Begun& begun) const {
    return hn::Sub(begun.e.p, hn::Mul(rate, direction(math, begun.e, begun.root)));
  }

  template <typename Arrays>
  static void update_one(const LambCoefficients& c, const Arrays& arrays, std::uint64_t i) {
    AdamElement e = with_moments(c.adam, arrays.load_grad(i), arrays.load(i));
    e.master = e.master - lamb_rate(c) * lamb_direction(c.adam, e, std::sqrt(e.exp_avg_sq));
    arrays.store(i, e, c.adam.rounding_key);
  }

  Math math;
  Float rate;
};

void update_all_by_lamb(const LambCoefficients& coefficients, const UpdateArrays& arrays) {
  with_types(arrays, [&](const auto& typed) { update<LambRule>(coefficients, typed); });
}

/// The values of one row of the norm.
struct DirectionRow {
  float masters[kNormRow], directions[kNormRow];
};

/// Fills `row` with masters and directions of the `n` elements from `first` on.
template <typename Arrays>
HWY_INLINE void fill_row(const AdamCoefficients& c, const Math& math, const Arrays& arrays, std::uint64_t first,
                         std::uint64_t n, DirectionRow& row) {
  std::uint64_t lane = 0;
  for (const std::uint64_t n_lanes = hn::Lanes(Floats()); lane + n_lanes <= n; lane += n_lanes) {
    const AdamVector e = math.with_moments(arrays, first + lane);
    hn::StoreU(e.p, Floats(), row.masters + lane);
    hn::StoreU(direction(math, e, hn::Sqrt(e.v)), Floats(), row.directions + lane);
  }
  for (; lane < n; ++lane) {
    const AdamElement e = with_moments(c, arrays.load_grad(first + lane), arrays.load(first + lane));
    row.masters[lane] = e.master;
    row.directions[lane] = lamb_direction(c, e, std::sqrt(e.exp_avg_sq));
  }
}

template <typename Arrays>
void sum_rows(const AdamCoefficients& c, const Arrays& arrays, double* masters, double* directions) {
  const Math math(c);
  DirectionRow row;
  for (std::uint64_t first = 0; first < arrays.n; first += kNormRow) {
    const std::uint64_t n = std::min(kNormRow, arrays.n - first);
    fill_row(c, math, arrays, first, n, row);
    *masters++ = sum_of_row<Fp32>(row.masters, n);
    *directions++ = sum_of_row<Fp32>(row.directions, n);
  }
}

void sum_all_rows(const LambCoefficients& coefficients, const UpdateArrays& arrays, double* masters,
                  double* directions) {
  with_types(arrays, [&](const auto& typed) { sum_rows(coefficients.adam, typed, masters, directions); });
}

}  // namespace castor::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {

HWY_EXPORT(update_all_by_lamb);
HWY_EXPORT(sum_all_rows);

void update_by_vectors(const LambCoefficients& coefficients, const UpdateArrays& arrays) {
  HWY_DYNAMIC_DISPATCH(update_all_by_lamb)(coefficients, arrays);
}

void sum_rows_by_vectors(const LambCoefficients& coefficients, const UpdateArrays& arrays, double* masters,
                         double* directions) {
  HWY_DYNAMIC_DISPATCH(sum_all_rows)(coefficients, arrays, masters, directions);
}

}  // namespace castor::kernels
#endif

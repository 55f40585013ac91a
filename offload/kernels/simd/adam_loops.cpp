// SPDX-License-Identifier: Apache-2.0
#include "kernels/adam_loops.h"

#include <cmath>

#include "kernels/adam_element.h"

// Highway compiles what follows once for each kind of vectors, by including this file again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/adam_loops.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "kernels/simd/adam_moments-inl.h"
#include "kernels/simd/update_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::HWY_NAMESPACE {

/// adam_element.h by vectors.
struct AdamRule {
  using Coefficients = AdamCoefficients;
  static constexpr bool kKeepsExpAvgSq = true;

  explicit HWY_INLINE AdamRule(const AdamCoefficients& c) : math(c) {}

  /// with_moments and next_master.
  template <bool kPastCaches, typename Arrays>
  HWY_INLINE Float updated(const Arrays& arrays, std::uint64_t i) const {
    AdamVector e = math.with_moments(arrays, i);
    const Float ratio = math.moment_ratio(e);
    if (math.decoupled_decay) e.p = hn::Sub(e.p, hn::Mul(math.decay, e.p));
    e.p = canonical(hn::Sub(e.p, hn::Mul(math.step_size, ratio)));
    math.store<kPastCaches>(arrays, i, e);
    return e.p;
  }

  template <typename Arrays>
  static void update_one(const AdamCoefficients& c, const Arrays& arrays, std::uint64_t i) {
    AdamElement e = with_moments(c, arrays.load_grad(i), arrays.load(i));
    e.master = next_master(c, e, std::sqrt(e.exp_avg_sq));
    arrays.store(i, e, c.rounding_key);
  }

  AdamMath math;
};

void update_all_by_adam(const AdamCoefficients& coefficients, const AdamArrays& arrays) {
  with_types(arrays, [&](const auto& typed) { update<AdamRule>(coefficients, typed); });
}

}  // namespace castor::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {

HWY_EXPORT(update_all_by_adam);

void update_by_vectors(const AdamCoefficients& coefficients, const AdamArrays& arrays) {
  HWY_DYNAMIC_DISPATCH(update_all_by_adam)(coefficients, arrays);
}

}  // namespace castor::kernels
#endif

// SPDX-License-Identifier: Apache-2.0
#include "host/adam_loops.h"

#include <cmath>

#include "elements/adam_element.h"

// Highway compiles the code below once for each kind of vectors, by including this file again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "adam_loops.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "adam_moments-inl.h"
#include "update_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::HWY_NAMESPACE {

/// adam_element.h with vectors.
template <bool kUsual>
struct AdamRule {
  using Coefficients = AdamCoefficients;
  using Begun = typename AdamMath<kUsual>::Begun;
  static constexpr bool kKeepsExpAvgSq = true;

  explicit HWY_INLINE AdamRule(const AdamCoefficients& c) : math(c) {}

  /// with_moments.
  template <bool kPastCaches, typename Arrays>
  HWY_INLINE Begun begin(const Arrays& arrays, std::uint64_t i) const {
    return math.template begin<kPastCaches>(arrays, i);
  }

  /// next_master.
  HWY_INLINE Float end(const Begun& begun) const {
    Float p = begun.e.p;
    if (math.decouples_decay()) p = hn::Sub(p, hn::Mul(math.decay, p));
    return hn::Sub(p, hn::Mul(math.step_size, math.moment_ratio(begun.e, begun.root)));
  }

  template <typename Arrays>
  static void update_one(const AdamCoefficients& c, const Arrays& arrays, std::uint64_t i) {
    AdamElement e = with_moments(c, arrays.load_grad(i), arrays.load(i));
    e.master = next_master(c, e, std::sqrt(e.exp_avg_sq));
    arrays.store(i, e, c.rounding_key);
  }

  AdamMath<kUsual> math;
};

void update_all_by_adam(const AdamCoefficients& coefficients, const UpdateArrays& arrays) {
  with_types(arrays, [&](const auto& typed) {
    is_usual(coefficients, arrays.grad_dtype) ? update<AdamRule<true>>(coefficients, typed)
                                              : update<AdamRule<false>>(coefficients, typed);
  });
}

}  // namespace castor::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {

HWY_EXPORT(update_all_by_adam);

void update_by_vectors(const AdamCoefficients& coefficients, const UpdateArrays& arrays) {
  HWY_DYNAMIC_DISPATCH(update_all_by_adam)(coefficients, arrays);
}

}  // namespace castor::kernels
#endif

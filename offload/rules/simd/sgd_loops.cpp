// SPDX-License-Identifier: Apache-2.0
#include "host/sgd_loops.h"

#include <limits>

#include "elements/sgd_element.h"

// Highway compiles the code below once for each kind of vectors, by including this file again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sgd_loops.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "update_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::HWY_NAMESPACE {

/// sgd_element.h with vectors: the coefficients, each in all lanes.
struct SgdRule {
  using Coefficients = SgdCoefficients;
  static constexpr bool kKeepsExpAvgSq = false;

  explicit HWY_INLINE SgdRule(const SgdCoefficients& c)
      : grad_scale(all(c.grad_scale)),
        decay(all(c.decay)),
        momentum(all(c.momentum)),
        lr(all(c.lr)),
        max_value(all(c.max_value)),
        trust(all(trust_of(c))),
        nesterov(c.nesterov),
        clamps(c.max_value < std::numeric_limits<float>::infinity()) {}

  struct Begun {
    Float p, direction;
  };

  /// sgd_updated, up to the direction.
  template <bool kPastCaches, typename Arrays>
  HWY_INLINE Begun begin(const Arrays& arrays, std::uint64_t i) const {
    using Momentum = Stored<typename Arrays::ExpAvg>;
    const Float p = load_master(arrays, i);
    Float g = hn::Mul(load_grad<false>(arrays, i), grad_scale);
    if (clamps) g = clamped(g, max_value);
    g = hn::Mul(trust, hn::Add(g, hn::Mul(decay, p)));
    const Float b = hn::Add(hn::Mul(momentum, Momentum::load(arrays.old.exp_avg + i)), g);
    store_moments<kPastCaches, typename Arrays::ExpAvg>(b, arrays.exp_avg + i);
    return {p, nesterov ? hn::Add(g, hn::Mul(momentum, b)) : b};
  }

  HWY_INLINE Float end(const Begun& begun) const { return hn::Sub(begun.p, hn::Mul(lr, begun.direction)); }

  template <typename Arrays>
  static void update_one(const SgdCoefficients& c, const Arrays& arrays, std::uint64_t i) {
    update_sgd_element(c, arrays, i);
  }

  Float grad_scale, decay, momentum, lr, max_value, trust;
  bool nesterov, clamps;
};

void update_all_by_sgd(const SgdCoefficients& coefficients, const UpdateArrays& arrays) {
  with_types(arrays, [&](const auto& typed) { update<SgdRule>(coefficients, typed); });
}

}  // namespace castor::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {

HWY_EXPORT(update_all_by_sgd);

void update_by_vectors(const SgdCoefficients& coefficients, const UpdateArrays& arrays) {
  HWY_DYNAMIC_DISPATCH(update_all_by_sgd)(coefficients, arrays);
}

}  // namespace castor::kernels
#endif

// SPDX-License-Identifier: Apache-2.0
#include "kernels/adam_loops.h"

#include <cmath>
#include <limits>

#include "kernels/adam_element.h"

// Highway compiles what follows once for each kind of vectors, by including this file again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/adam_loops.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "kernels/simd/update_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::HWY_NAMESPACE {

/// rounding_bits of formats.h for the elements from number `first` on.
HWY_INLINE Word rounding_bits(Word key, std::uint32_t first) {
  Word value = hn::Xor(hn::Iota(Words(), first), key);
  value = hn::Mul(hn::Xor(value, hn::ShiftRight<16>(value)), word(0x7feb352d));
  value = hn::Mul(hn::Xor(value, hn::ShiftRight<15>(value)), word(0x846ca68b));
  return hn::ShiftRight<16>(hn::Xor(value, hn::ShiftRight<16>(value)));
}

/// All but the weight. Requires: canonical.
template <typename Arrays>
HWY_INLINE void store_states(const Arrays& arrays, std::uint64_t i, Word rounding_key, Float p, Float m, Float v) {
  store_master(arrays, i, p);
  Stored<typename Arrays::ExpAvg>::store(m, arrays.exp_avg + i);
  if constexpr (sizeof *arrays.exp_avg_sq == 2) {
    const Word random = rounding_bits(rounding_key, arrays.first + static_cast<std::uint32_t>(i));
    store_halves(hn::ShiftRight<16>(hn::Add(bits_of(v), random)), arrays.exp_avg_sq + i);
  } else {
    hn::StoreU(v, Floats(), arrays.exp_avg_sq + i);
  }
}

/// adam_element.h by vectors: the coefficients, each in all lanes.
struct AdamRule {
  using Coefficients = AdamCoefficients;
  static constexpr bool kKeepsExpAvgSq = true;

  explicit HWY_INLINE AdamRule(const AdamCoefficients& c)
      : grad_scale(all(c.grad_scale)),
        beta1(all(c.beta1)),
        one_minus_beta1(all(c.one_minus_beta1)),
        beta2(all(c.beta2)),
        one_minus_beta2(all(c.one_minus_beta2)),
        eps(all(c.eps)),
        rsqrt_bias2(all(c.rsqrt_bias2)),
        step_size(all(c.step_size)),
        decay(all(c.decay)),
        max_value(all(c.max_value)),
        decoupled_decay(c.decoupled_decay),
        clamps(c.max_value < std::numeric_limits<float>::infinity()),
        rounding_key(word(c.rounding_key)) {}

  /// with_moments and next_master.
  template <typename Arrays>
  HWY_INLINE Float updated(const Arrays& arrays, std::uint64_t i) const {
    Float p = load_master(arrays, i);
    Float g = hn::Mul(load_grad(arrays, i), grad_scale);
    if (clamps) g = clamped(g, max_value);
    if (!decoupled_decay) g = hn::Add(g, hn::Mul(decay, p));
    const Float m =
        hn::Add(hn::Mul(beta1, Stored<typename Arrays::ExpAvg>::load(arrays.exp_avg + i)), hn::Mul(one_minus_beta1, g));
    const Float v = hn::Add(hn::Mul(beta2, Stored<typename Arrays::ExpAvgSq>::load(arrays.exp_avg_sq + i)),
                            hn::Mul(hn::Mul(one_minus_beta2, g), g));
    const Float denominator = hn::Add(hn::Mul(hn::Sqrt(v), rsqrt_bias2), eps);
    if (decoupled_decay) p = hn::Sub(p, hn::Mul(decay, p));
    p = canonical(hn::Sub(p, hn::Mul(step_size, hn::Div(m, denominator))));
    store_states(arrays, i, rounding_key, p, canonical(m), canonical(v));
    return p;
  }

  template <typename Arrays>
  static void update_one(const AdamCoefficients& c, const Arrays& arrays, std::uint64_t i) {
    AdamElement e = with_moments(c, arrays.load_grad(i), arrays.load(i));
    e.master = next_master(c, e, std::sqrt(e.exp_avg_sq));
    arrays.store(i, {kernels::canonical(e.master), kernels::canonical(e.exp_avg), kernels::canonical(e.exp_avg_sq)},
                 c.rounding_key);
  }

  Float grad_scale, beta1, one_minus_beta1, beta2, one_minus_beta2, eps, rsqrt_bias2, step_size, decay, max_value;
  bool decoupled_decay, clamps;
  Word rounding_key;
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

// SPDX-License-Identifier: Apache-2.0
// adam_element.h with vectors: the arithmetic that rules with Adam's two moments share. Compiled once for each kind of
// vectors, as stored-inl.h.
#if defined(CASTOR_OFFLOAD_KERNELS_SIMD_ADAM_MOMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CASTOR_OFFLOAD_KERNELS_SIMD_ADAM_MOMENTS_INL_H_
#undef CASTOR_OFFLOAD_KERNELS_SIMD_ADAM_MOMENTS_INL_H_
#else
#define CASTOR_OFFLOAD_KERNELS_SIMD_ADAM_MOMENTS_INL_H_
#endif

#include <limits>

#include <hwy/highway.h>

#include "stored-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::HWY_NAMESPACE {

/// rounding_bits of formats.h for the elements from number `first` on.
HWY_INLINE Word rounding_bits(Word key, std::uint32_t first) {
  Word value = hn::Xor(hn::Iota(Words(), first), key);
  value = hn::Mul(hn::Xor(value, hn::ShiftRight<16>(value)), word(0x7feb352d));
  value = hn::Mul(hn::Xor(value, hn::ShiftRight<15>(value)), word(0x846ca68b));
  return hn::ShiftRight<16>(hn::Xor(value, hn::ShiftRight<16>(value)));
}

/// Master and moments of a vector of elements.
struct AdamVector {
  Float p, m, v;
};

/// True for AdamW on gradients in bf16 that are not clamped, which nearly all trainings use.
inline bool is_usual(const AdamCoefficients& c, DType grad_dtype) {
  return grad_dtype == DType::bf16 && c.decoupled_decay && c.max_value == std::numeric_limits<float>::infinity();
}

/// The coefficients, each in all lanes. `kUsual`: is_usual() holds, so the loop has no branches for other cases; three
/// branches a vector take a quarter of its time with AVX2.
template <bool kUsual>
struct AdamMath {
  explicit HWY_INLINE AdamMath(const AdamCoefficients& c)
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

  /// with_moments for the elements from `i` on.
  template <typename Arrays>
  HWY_INLINE AdamVector with_moments(const Arrays& arrays, std::uint64_t i) const {
    const Float p = load_master(arrays, i);
    Float g = hn::Mul(load_grad<kUsual>(arrays, i), grad_scale);
    if (!kUsual && clamps) g = clamped(g, max_value);
    if (!decouples_decay()) g = hn::Add(g, hn::Mul(decay, p));
    const Float m = hn::Add(hn::Mul(beta1, Stored<typename Arrays::ExpAvg>::load(arrays.old.exp_avg + i)),
                            hn::Mul(one_minus_beta1, g));
    const Float v = hn::Add(hn::Mul(beta2, Stored<typename Arrays::ExpAvgSq>::load(arrays.old.exp_avg_sq + i)),
                            hn::Mul(hn::Mul(one_minus_beta2, g), g));
    return {p, m, v};
  }

  /// moment_ratio. `root`: the square root of e.v.
  HWY_INLINE Float moment_ratio(const AdamVector& e, Float root) const {
    return hn::Div(e.m, hn::Add(hn::Mul(root, rsqrt_bias2), eps));
  }

  HWY_INLINE bool decouples_decay() const { return kUsual || decoupled_decay; }

  /// Stores the moments; those of fp32 are made canonical later.
  template <bool kPastCaches, typename Arrays>
  HWY_INLINE void store(const Arrays& arrays, std::uint64_t i, const AdamVector& e) const {
    store_moments<kPastCaches, typename Arrays::ExpAvg>(e.m, arrays.exp_avg + i);
    if constexpr (sizeof *arrays.exp_avg_sq == 2) {
      const Word random = rounding_bits(rounding_key, arrays.first + static_cast<std::uint32_t>(i));
      hn::StoreU(halves(hn::ShiftRight<16>(hn::Add(bits_of(canonical(e.v)), random))), Halves(), arrays.exp_avg_sq + i);
    } else {
      store_moments<kPastCaches, Fp32>(e.v, arrays.exp_avg_sq + i);
    }
  }

  /// A vector of elements whose moments are written.
  struct Begun {
    AdamVector e;
    Float root;
  };
  template <bool kPastCaches, typename Arrays>
  HWY_INLINE Begun begin(const Arrays& arrays, std::uint64_t i) const {
    const AdamVector e = with_moments(arrays, i);
    store<kPastCaches>(arrays, i, e);
    return {e, hn::Sqrt(e.v)};
  }

  Float grad_scale, beta1, one_minus_beta1, beta2, one_minus_beta2, eps, rsqrt_bias2, step_size, decay, max_value;
  bool decoupled_decay, clamps;
  Word rounding_key;
};

}  // namespace castor::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

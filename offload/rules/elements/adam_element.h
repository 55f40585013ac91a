// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/rules/adam.h>

#include "formats.h"

/// The arithmetic of one element: the GPU compiles the same lines as the host does for elements outside of its vectors.
/// Every operator rounds once: both compilers are told not to contract. The caller takes the square root between the
/// two halves, since constexpr code cannot.
namespace castor::kernels {

struct AdamElement {
  float master, exp_avg, exp_avg_sq;
};

/// A NaN stays a NaN, because it is neither above nor below the limits.
constexpr float clamped(float value, float limit) {
  if (value > limit) return limit;
  return value < -limit ? -limit : value;
}

/// The moments after the gradient `grad`, and the old master.
constexpr AdamElement with_moments(const AdamCoefficients& c, float grad, AdamElement e) {
  float g = clamped(grad * c.grad_scale, c.max_value);
  if (!c.decoupled_decay) g = g + c.decay * e.master;
  e.exp_avg = c.beta1 * e.exp_avg + c.one_minus_beta1 * g;
  e.exp_avg_sq = c.beta2 * e.exp_avg_sq + (c.one_minus_beta2 * g) * g;
  return e;
}

/// m/d. `e` is the result of with_moments, `root` the square root of its exp_avg_sq.
constexpr float moment_ratio(const AdamCoefficients& c, const AdamElement& e, float root) {
  const float denominator = root * c.rsqrt_bias2 + c.eps;
  return e.exp_avg / denominator;
}

/// The new master. `e` and `root`: as above.
constexpr float next_master(const AdamCoefficients& c, const AdamElement& e, float root) {
  float p = e.master;
  if (c.decoupled_decay) p = p - c.decay * p;
  return p - c.step_size * moment_ratio(c, e, root);
}

/// The old array, `n_bytes` from `array`, that is read in its place; null where `array` is null.
template <typename T>
const T* read_of(const T* array, std::ptrdiff_t n_bytes) {
  if (array == nullptr) return nullptr;
  return reinterpret_cast<const T*>(reinterpret_cast<std::uintptr_t>(array) + static_cast<std::uintptr_t>(n_bytes));
}

/// UpdateArrays with a type for the format of each array that is written. The format of the gradient is looked up at
/// each access, since a type for it would mean three times as many instantiations. `kSplit`: the master is its low bits
/// and the weight. A rule without exp_avg_sq does not access it.
template <typename WeightFormat, bool kSplitMaster, typename ExpAvgFormat, typename ExpAvgSqFormat>
struct TypedArrays {
  using Weight = WeightFormat;
  using ExpAvg = ExpAvgFormat;
  using ExpAvgSq = ExpAvgSqFormat;
  static constexpr bool kSplit = kSplitMaster;

  explicit TypedArrays(const UpdateArrays& arrays)
      : master(arrays.master),
        master_low(arrays.master_low),
        exp_avg(static_cast<typename ExpAvg::Bits*>(arrays.exp_avg)),
        exp_avg_sq(static_cast<typename ExpAvgSq::Bits*>(arrays.exp_avg_sq)),
        grad(arrays.grad),
        grad_dtype(arrays.grad_dtype),
        weight(static_cast<typename Weight::Bits*>(arrays.weight)),
        n(arrays.n),
        first(arrays.first),
        old{read_of(master, arrays.old_states), read_of(master_low, arrays.old_states),
            read_of(exp_avg, arrays.old_states), read_of(exp_avg_sq, arrays.old_states),
            read_of(weight, arrays.old_weight)} {}

  bool in_place() const { return old.exp_avg == exp_avg; }

  constexpr AdamElement load(std::uint64_t i) const {
    return {load_master(i), ExpAvg::widen(old.exp_avg[i]), ExpAvgSq::widen(old.exp_avg_sq[i])};
  }
  constexpr float load_grad(std::uint64_t i) const {
    if (grad_dtype == DType::f32) return static_cast<const float*>(grad)[i];
    const std::uint16_t bits = static_cast<const std::uint16_t*>(grad)[i];
    return grad_dtype == DType::bf16 ? Bf16::widen(bits) : Fp16::widen(bits);
  }
  constexpr float load_master(std::uint64_t i) const {
    if constexpr (kSplit) return joined(old.weight[i], old.master_low[i]);
    return old.master[i];
  }
  /// Stores the master, and the weight that follows from it. Requires: `value` is canonical.
  constexpr void store_master(std::uint64_t i, float value) const {
    if constexpr (kSplit)
      master_low[i] = low_bits(value);
    else
      master[i] = value;
    weight[i] = Weight::narrow(value);
  }
  /// Stores all values of the element, made canonical.
  constexpr void store(std::uint64_t i, const AdamElement& e, std::uint32_t rounding_key) const {
    store_master(i, canonical(e.master));
    exp_avg[i] = ExpAvg::narrow(canonical(e.exp_avg));
    const float v = canonical(e.exp_avg_sq);
    if constexpr (sizeof *exp_avg_sq == 2)
      exp_avg_sq[i] = narrow_at_random(v, rounding_bits(rounding_key, first + static_cast<std::uint32_t>(i)));
    else
      exp_avg_sq[i] = v;
  }

  float* master;
  std::uint16_t* master_low;
  typename ExpAvg::Bits* exp_avg;
  typename ExpAvgSq::Bits* exp_avg_sq;
  const void* grad;
  DType grad_dtype;
  typename Weight::Bits* weight;
  std::uint64_t n;
  std::uint32_t first;
  /// The arrays that are read: those above, or others.
  struct Old {
    const float* master;
    const std::uint16_t* master_low;
    const typename ExpAvg::Bits* exp_avg;
    const typename ExpAvgSq::Bits* exp_avg_sq;
    const typename Weight::Bits* weight;
  } old;
};

template <typename Weight, bool kSplit, typename F>
decltype(auto) with_moments_of(const UpdateArrays& arrays, F&& f) {
  switch (arrays.moments) {
    case MomentFormat::f32: return f(TypedArrays<Weight, kSplit, Fp32, Fp32>(arrays));
    case MomentFormat::mixed: return f(TypedArrays<Weight, kSplit, Bf16, Fp32>(arrays));
    case MomentFormat::bf16: return f(TypedArrays<Weight, kSplit, Bf16, Bf16>(arrays));
  }
  throw ContractViolation("update: moments of kind " + std::to_string(static_cast<int>(arrays.moments)));
}

/// Calls `f` with `arrays` as TypedArrays. Errors: ContractViolation, where a split master's weight is no bf16.
template <typename F>
decltype(auto) with_types(const UpdateArrays& arrays, F&& f) {
  if (arrays.master_low == nullptr)
    return with_format(arrays.weight_dtype,
                       [&](auto weight) { return with_moments_of<decltype(weight), false>(arrays, f); });
  if (arrays.weight_dtype != DType::bf16)
    throw ContractViolation("update: a master is split beside a bf16 weight only");
  return with_moments_of<Bf16, true>(arrays, f);
}

}  // namespace castor::kernels

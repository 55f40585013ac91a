// SPDX-License-Identifier: Apache-2.0
#include "kernels/adam_loops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/adam_element.h"

// Highway compiles what follows once for each kind of vectors, by including this file again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/adam_loops.cpp"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::Rebind<std::uint32_t, Floats>;
using Halves = hn::Rebind<std::uint16_t, Floats>;  ///< as many as there are Floats: half a vector
using Float = hn::Vec<Floats>;
using Word = hn::Vec<Words>;

HWY_INLINE Word word(std::uint32_t bits) { return hn::Set(Words(), bits); }
HWY_INLINE Word bits_of(Float value) { return hn::BitCast(Words(), value); }
HWY_INLINE Float float_of(Word bits) { return hn::BitCast(Floats(), bits); }
HWY_INLINE Word if_below(Word value, std::uint32_t limit, Word below, Word otherwise) {
  return hn::IfThenElse(hn::Lt(value, word(limit)), below, otherwise);
}
HWY_INLINE Float canonical(Float value) { return hn::IfThenElse(hn::IsNaN(value), float_of(word(kNanBits)), value); }

/// Elements as they are stored, to and from vectors of fp32; the arithmetic is that of formats.h.
template <typename Format>
struct Stored;

template <>
struct Stored<Fp32> {
  static constexpr bool kStreams = false;
  static HWY_INLINE Float load(const float* from) { return hn::LoadU(Floats(), from); }
  static HWY_INLINE void store(Float value, float* to) { hn::StoreU(value, Floats(), to); }
};

/// Formats of 16 bits; `Rounding::widen` takes words, `Rounding::narrow` canonical floats.
template <typename Rounding>
struct StoredInHalves {
  static constexpr bool kStreams = HWY_TARGET != HWY_SCALAR;
  static HWY_INLINE Float load(const std::uint16_t* from) {
    return Rounding::widen(hn::PromoteTo(Words(), hn::LoadU(Halves(), from)));
  }
  static HWY_INLINE hn::Vec<Halves> narrow(Float value) {
    return hn::DemoteTo(Halves(), hn::BitCast(hn::RebindToSigned<Words>(), Rounding::narrow(bits_of(value))));
  }
  static HWY_INLINE void store(Float value, std::uint16_t* to) { hn::StoreU(narrow(value), Halves(), to); }
  /// Both at once, past the caches. Requires: `to` is aligned to a vector.
  static HWY_INLINE void stream(Float first, Float second, std::uint16_t* to) {
#if HWY_TARGET != HWY_SCALAR
    const hn::Twice<Halves> both;
    hn::Stream(hn::Combine(both, narrow(second), narrow(first)), both, to);
#endif
  }
};

struct Bf16Rounding {
  static HWY_INLINE Float widen(Word stored) { return float_of(hn::ShiftLeft<16>(stored)); }
  static HWY_INLINE Word narrow(Word value) { return hn::ShiftRight<16>(hn::Add(value, word(0x8000))); }
};

struct Fp16Rounding {
  static HWY_INLINE Float widen(Word stored) {
    const Word magnitude = hn::And(stored, word(0x7fff));
    const Word sign = hn::ShiftLeft<16>(hn::And(stored, word(0x8000)));
    const Word rebias = if_below(magnitude, 0x7c00, word(112u << 23), word(224u << 23));
    const Word normal = hn::Add(hn::ShiftLeft<13>(magnitude), rebias);
    const Float units = hn::ConvertTo(Floats(), hn::BitCast(hn::RebindToSigned<Words>(), magnitude));
    const Word subnormal = bits_of(hn::Mul(units, hn::Set(Floats(), 0x1p-24f)));
    return float_of(hn::Or(sign, if_below(magnitude, 0x0400, subnormal, normal)));
  }
  /// Below 2^-14 the sum with 0.5 rounds to units of 2^-24, which its bits count.
  static HWY_INLINE Word narrow(Word value) {
    const Word magnitude = hn::And(value, word(~kSignBit));
    const Word sign = hn::ShiftRight<16>(hn::And(value, word(kSignBit)));
    const Word rebiased = hn::Sub(magnitude, word(112u << 23));
    const Word odd = hn::And(hn::ShiftRight<13>(rebiased), word(1));
    const Word normal = hn::ShiftRight<13>(hn::Add(hn::Add(rebiased, word(0x0fff)), odd));
    const Float half = hn::Set(Floats(), 0.5f);
    const Word subnormal = hn::Sub(bits_of(hn::Add(float_of(magnitude), half)), bits_of(half));
    const Word finite = if_below(magnitude, 0x38800000, subnormal, normal);
    const Word bounded = if_below(magnitude, 0x477ff000, finite, word(0x7c00));
    const Word rounded = hn::Or(sign, bounded);
    return if_below(magnitude, kInfinityBits + 1, rounded, word(0x7e00));
  }
};

template <>
struct Stored<Bf16> : StoredInHalves<Bf16Rounding> {};
template <>
struct Stored<Fp16> : StoredInHalves<Fp16Rounding> {};

/// The coefficients, each in all lanes.
struct Coefficients {
  explicit HWY_INLINE Coefficients(const AdamCoefficients& c)
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
  static HWY_INLINE Float all(float value) { return hn::Set(Floats(), value); }

  Float grad_scale, beta1, one_minus_beta1, beta2, one_minus_beta2, eps, rsqrt_bias2, step_size, decay, max_value;
  bool decoupled_decay, clamps;
  Word rounding_key;
};

/// joined and low_bits of formats.h.
HWY_INLINE Float load_split(const std::uint16_t* weight, const std::uint16_t* low) {
  const Word high_part = hn::PromoteTo(Words(), hn::LoadU(Halves(), weight));
  const Word low_part = hn::PromoteTo(Words(), hn::LoadU(Halves(), low));
  const Word high = hn::Sub(high_part, hn::ShiftRight<15>(low_part));
  return float_of(hn::Or(hn::ShiftLeft<16>(high), low_part));
}
HWY_INLINE void store_halves(Word values, std::uint16_t* to) {
  hn::StoreU(hn::DemoteTo(Halves(), hn::BitCast(hn::RebindToSigned<Words>(), values)), Halves(), to);
}

/// rounding_bits of formats.h for the elements from number `first` on.
HWY_INLINE Word rounding_bits(Word key, std::uint32_t first) {
  Word value = hn::Xor(hn::Iota(Words(), first), key);
  value = hn::Mul(hn::Xor(value, hn::ShiftRight<16>(value)), word(0x7feb352d));
  value = hn::Mul(hn::Xor(value, hn::ShiftRight<15>(value)), word(0x846ca68b));
  return hn::ShiftRight<16>(hn::Xor(value, hn::ShiftRight<16>(value)));
}

/// The branches go the same way every time.
template <typename Arrays>
HWY_INLINE Float load_grad(const Arrays& arrays, std::uint64_t i) {
  if (arrays.grad_dtype == DType::f32) return hn::LoadU(Floats(), static_cast<const float*>(arrays.grad) + i);
  const auto* const halves = static_cast<const std::uint16_t*>(arrays.grad) + i;
  return arrays.grad_dtype == DType::bf16 ? Stored<Bf16>::load(halves) : Stored<Fp16>::load(halves);
}

template <typename Arrays>
HWY_INLINE Float load_master(const Arrays& arrays, std::uint64_t i) {
  if constexpr (Arrays::kSplit)
    return load_split(arrays.weight + i, arrays.master_low + i);
  else
    return hn::LoadU(Floats(), arrays.master + i);
}

/// All but the weight. Requires: canonical.
template <typename Arrays>
HWY_INLINE void store_states(const Arrays& arrays, std::uint64_t i, Word rounding_key, Float p, Float m, Float v) {
  if constexpr (Arrays::kSplit)
    store_halves(hn::And(bits_of(p), word(0xffff)), arrays.master_low + i);
  else
    hn::StoreU(p, Floats(), arrays.master + i);
  Stored<typename Arrays::ExpAvg>::store(m, arrays.exp_avg + i);
  if constexpr (sizeof *arrays.exp_avg_sq == 2) {
    const Word random = rounding_bits(rounding_key, arrays.first + static_cast<std::uint32_t>(i));
    store_halves(hn::ShiftRight<16>(hn::Add(bits_of(v), random)), arrays.exp_avg_sq + i);
  } else {
    hn::StoreU(v, Floats(), arrays.exp_avg_sq + i);
  }
}

/// clamped of adam_element.h.
HWY_INLINE Float clamped(Float value, Float limit) {
  const Float lowest = hn::Neg(limit);
  value = hn::IfThenElse(hn::Gt(value, limit), limit, value);
  return hn::IfThenElse(hn::Lt(value, lowest), lowest, value);
}

/// with_moments and next_master of adam_element.h; returns the new master, canonical.
template <typename Arrays>
HWY_INLINE Float updated(const Coefficients& c, const Arrays& arrays, std::uint64_t i) {
  Float p = load_master(arrays, i);
  Float g = hn::Mul(load_grad(arrays, i), c.grad_scale);
  if (c.clamps) g = clamped(g, c.max_value);
  if (!c.decoupled_decay) g = hn::Add(g, hn::Mul(c.decay, p));
  const Float m = hn::Add(hn::Mul(c.beta1, Stored<typename Arrays::ExpAvg>::load(arrays.exp_avg + i)),
                          hn::Mul(c.one_minus_beta1, g));
  const Float v = hn::Add(hn::Mul(c.beta2, Stored<typename Arrays::ExpAvgSq>::load(arrays.exp_avg_sq + i)),
                          hn::Mul(hn::Mul(c.one_minus_beta2, g), g));
  const Float denominator = hn::Add(hn::Mul(hn::Sqrt(v), c.rsqrt_bias2), c.eps);
  if (c.decoupled_decay) p = hn::Sub(p, hn::Mul(c.decay, p));
  p = canonical(hn::Sub(p, hn::Mul(c.step_size, hn::Div(m, denominator))));
  store_states(arrays, i, c.rounding_key, p, canonical(m), canonical(v));
  return p;
}

/// Elements from `first` to `end`, one after the other.
template <typename Arrays>
HWY_NOINLINE void update_singly(const AdamCoefficients& c, const Arrays& arrays, std::uint64_t first,
                                std::uint64_t end) {
  for (std::uint64_t i = first; i < end; ++i) {
    AdamElement e = with_moments(c, arrays.load_grad(i), arrays.load(i));
    e.master = next_master(c, e, std::sqrt(e.exp_avg_sq));
    arrays.store(i, {kernels::canonical(e.master), kernels::canonical(e.exp_avg), kernels::canonical(e.exp_avg_sq)},
                 c.rounding_key);
  }
}

/// A tensor is cut into parts of this many elements or more; weights of fewer may be read again while in a cache.
constexpr std::uint64_t kLeastStreamed = std::uint64_t{4} << 10;

/// Where weights are written past the caches: not those that the update reads, which are in a cache already.
template <typename Arrays>
constexpr bool kStreams = Stored<typename Arrays::Weight>::kStreams && !Arrays::kSplit;

/// A line of 16-bit values, two of fp32.
constexpr std::uint64_t kLineElements = 32;
/// How far ahead memory is asked for: 14 requests a line, where the processor alone keeps too few under way behind a square
/// root and a division.
constexpr std::uint64_t kAheadElements = 256;

template <typename Bits>
HWY_INLINE void ask_for_line(const Bits* data) {
  constexpr std::uint64_t kPerLine = 64 / sizeof(Bits);
  for (std::uint64_t i = 0; i < kLineElements; i += kPerLine) hwy::Prefetch(data + i);
}

template <typename Arrays>
HWY_INLINE void ask_for_lines(const Arrays& arrays, std::uint64_t i) {
  if constexpr (Arrays::kSplit) {
    ask_for_line(arrays.master_low + i);
    ask_for_line(arrays.weight + i);
  } else {
    ask_for_line(arrays.master + i);
  }
  ask_for_line(arrays.exp_avg + i);
  ask_for_line(arrays.exp_avg_sq + i);
  if (arrays.grad_dtype == DType::f32)
    ask_for_line(static_cast<const float*>(arrays.grad) + i);
  else
    ask_for_line(static_cast<const std::uint16_t*>(arrays.grad) + i);
}

/// Elements up to the first whose weight is aligned to `n_bytes`; all `n` where none is.
template <typename Bits>
HWY_INLINE std::uint64_t unaligned(const Bits* weight, std::uint64_t n_bytes, std::uint64_t n) {
  const std::uint64_t beyond = reinterpret_cast<std::uintptr_t>(weight) % n_bytes;
  if (beyond % sizeof(Bits) != 0) return n;
  return std::min<std::uint64_t>(n, beyond == 0 ? 0 : (n_bytes - beyond) / sizeof(Bits));
}

/// Elements of whole steps from `first` on, the rest left to the caller; returns where that begins.
///
/// Requires: a weight at `first` that is aligned to two vectors of halves, where `kPastCaches`.
template <bool kPastCaches, typename Arrays>
HWY_INLINE std::uint64_t update_steps(const Coefficients& c, const Arrays arrays, std::uint64_t first) {
  using Weight = Stored<typename Arrays::Weight>;
  const std::uint64_t n_lanes = hn::Lanes(Floats());
  const std::uint64_t n_step = std::max<std::uint64_t>(kLineElements, 2 * n_lanes);
  std::uint64_t i = first;
  for (; i + n_step <= arrays.n; i += n_step) {
    ask_for_lines(arrays, i + kAheadElements);
    for (std::uint64_t k = i; k < i + n_step; k += 2 * n_lanes) {
      const Float one = updated(c, arrays, k);
      const Float other = updated(c, arrays, k + n_lanes);
      if constexpr (kPastCaches) {
        Weight::stream(one, other, arrays.weight + k);
      } else {
        Weight::store(one, arrays.weight + k);
        Weight::store(other, arrays.weight + k + n_lanes);
      }
    }
  }
  return i;
}

template <typename Arrays>
void update(const AdamCoefficients& coefficients, const Arrays& arrays) {
  const Coefficients c(coefficients);
  std::uint64_t i = 0;
  if constexpr (kStreams<Arrays>) {
    if (arrays.n >= kLeastStreamed) {
      i = unaligned(arrays.weight, 4 * hn::Lanes(Floats()), arrays.n);
      update_singly(coefficients, arrays, 0, i);
      i = update_steps<true>(c, arrays, i);
      hwy::FlushStream();
    }
  }
  if (i == 0) i = update_steps<false>(c, arrays, 0);
  update_singly(coefficients, arrays, i, arrays.n);
}

void update_all(const AdamCoefficients& coefficients, const AdamArrays& arrays) {
  with_types(arrays, [&](const auto& typed) { update(coefficients, typed); });
}

}  // namespace castor::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {

HWY_EXPORT(update_all);

void update_by_vectors(const AdamCoefficients& coefficients, const AdamArrays& arrays) {
  HWY_DYNAMIC_DISPATCH(update_all)(coefficients, arrays);
}

}  // namespace castor::kernels
#endif

// SPDX-License-Identifier: Apache-2.0
// Loads stored elements into vectors of fp32 and stores them. Compiled once for each kind of vectors, like Highway's
// -inl.h files: the guard counts passes, not files.
#if defined(CASTOR_OFFLOAD_KERNELS_SIMD_STORED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CASTOR_OFFLOAD_KERNELS_SIMD_STORED_INL_H_
#undef CASTOR_OFFLOAD_KERNELS_SIMD_STORED_INL_H_
#else
#define CASTOR_OFFLOAD_KERNELS_SIMD_STORED_INL_H_
#endif

#include <hwy/highway.h>

#include "elements/adam_element.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::Rebind<std::uint32_t, Floats>;
using Halves = hn::Rebind<std::uint16_t, Floats>;  ///< as many as there are Floats: half a vector
using Float = hn::Vec<Floats>;
using Word = hn::Vec<Words>;

HWY_INLINE Float all(float value) { return hn::Set(Floats(), value); }
HWY_INLINE Word word(std::uint32_t bits) { return hn::Set(Words(), bits); }
HWY_INLINE Word bits_of(Float value) { return hn::BitCast(Words(), value); }
HWY_INLINE Float float_of(Word bits) { return hn::BitCast(Floats(), bits); }
HWY_INLINE Word if_below(Word value, std::uint32_t limit, Word below, Word otherwise) {
  return hn::IfThenElse(hn::Lt(value, word(limit)), below, otherwise);
}
HWY_INLINE Float canonical(Float value) { return hn::IfThenElse(hn::IsNaN(value), float_of(word(kNanBits)), value); }

#if HWY_TARGET == HWY_SCALAR
constexpr bool kHasStreams = false;
#else
constexpr bool kHasStreams = true;
#endif

#if HWY_TARGET == HWY_SCALAR
/// Halves of two vectors, one after the other.
struct Pair {
  hn::Vec<Halves> first, second;
};
HWY_INLINE hn::Vec<Halves> low(Word values) {
  return hn::Set(Halves(), static_cast<std::uint16_t>(hn::GetLane(values)));
}
HWY_INLINE Pair low_halves(Word first, Word second) { return {low(first), low(second)}; }
HWY_INLINE Pair high_halves(Word first, Word second) {
  return low_halves(hn::ShiftRight<16>(first), hn::ShiftRight<16>(second));
}
HWY_INLINE void store_pair(Pair pair, std::uint16_t* to) {
  hn::StoreU(pair.first, Halves(), to);
  hn::StoreU(pair.second, Halves(), to + 1);
}
HWY_INLINE void stream_pair(Pair pair, std::uint16_t* to) { store_pair(pair, to); }
#else
using Pairs = hn::Twice<Halves>;
using Pair = hn::Vec<Pairs>;
HWY_INLINE Pair low_halves(Word first, Word second) {
  return hn::ConcatEven(Pairs(), hn::BitCast(Pairs(), second), hn::BitCast(Pairs(), first));
}
HWY_INLINE Pair high_halves(Word first, Word second) {
  return hn::ConcatOdd(Pairs(), hn::BitCast(Pairs(), second), hn::BitCast(Pairs(), first));
}
HWY_INLINE void store_pair(Pair pair, std::uint16_t* to) { hn::StoreU(pair, Pairs(), to); }
/// Writes past the caches. Requires: `to` is aligned to a vector.
HWY_INLINE void stream_pair(Pair pair, std::uint16_t* to) { hn::Stream(pair, Pairs(), to); }
#endif

/// Loads and stores elements of one format; the arithmetic is that of formats.h.
template <typename Format>
struct Stored;

template <>
struct Stored<Fp32> {
  static HWY_INLINE Float load(const float* from) { return hn::LoadU(Floats(), from); }
  static HWY_INLINE void store(Float value, float* to) { hn::StoreU(value, Floats(), to); }
  static HWY_INLINE void store(Float first, Float second, float* to) {
    store(first, to);
    store(second, to + hn::Lanes(Floats()));
  }
  /// Writes both past the caches. Requires: `to` is aligned to a vector.
  static HWY_INLINE void stream(Float first, Float second, float* to) {
    hn::Stream(first, Floats(), to);
    hn::Stream(second, Floats(), to + hn::Lanes(Floats()));
  }
};

/// Formats of 16 bits. `Rounding::widen` takes words, `Rounding::narrow` the bits of canonical floats, one or two
/// vectors.
template <typename Rounding>
struct StoredInHalves {
  static HWY_INLINE Float load(const std::uint16_t* from) {
    return Rounding::widen(hn::PromoteTo(Words(), hn::LoadU(Halves(), from)));
  }
  static HWY_INLINE hn::Vec<Halves> narrow(Float value) {
    return hn::DemoteTo(Halves(), hn::BitCast(hn::RebindToSigned<Words>(), Rounding::narrow(bits_of(value))));
  }
  static HWY_INLINE void store(Float value, std::uint16_t* to) { hn::StoreU(narrow(value), Halves(), to); }
  static HWY_INLINE void store(Float first, Float second, std::uint16_t* to) {
    store_pair(Rounding::narrow(bits_of(first), bits_of(second)), to);
  }
  /// As for fp32.
  static HWY_INLINE void stream(Float first, Float second, std::uint16_t* to) {
    stream_pair(Rounding::narrow(bits_of(first), bits_of(second)), to);
  }
};

struct Bf16Rounding {
  static HWY_INLINE Float widen(Word stored) { return float_of(hn::ShiftLeft<16>(stored)); }
  static HWY_INLINE Word narrow(Word value) { return hn::ShiftRight<16>(hn::Add(value, word(0x8000))); }
  static HWY_INLINE Pair narrow(Word first, Word second) {
    return high_halves(hn::Add(first, word(0x8000)), hn::Add(second, word(0x8000)));
  }
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
  static HWY_INLINE Pair narrow(Word first, Word second) { return low_halves(narrow(first), narrow(second)); }
};

template <>
struct Stored<Bf16> : StoredInHalves<Bf16Rounding> {};
template <>
struct Stored<Fp16> : StoredInHalves<Fp16Rounding> {};

/// joined and low_bits of formats.h.
HWY_INLINE Float load_split(const std::uint16_t* weight, const std::uint16_t* low) {
  const Word high_part = hn::PromoteTo(Words(), hn::LoadU(Halves(), weight));
  const Word low_part = hn::PromoteTo(Words(), hn::LoadU(Halves(), low));
  const Word high = hn::Sub(high_part, hn::ShiftRight<15>(low_part));
  return float_of(hn::Or(hn::ShiftLeft<16>(high), low_part));
}
HWY_INLINE hn::Vec<Halves> halves(Word values) {
  return hn::DemoteTo(Halves(), hn::BitCast(hn::RebindToSigned<Words>(), values));
}

/// `kBf16`: the gradients are known to be bf16. Otherwise the branches take the same side every time.
template <bool kBf16, typename Arrays>
HWY_INLINE Float load_grad(const Arrays& arrays, std::uint64_t i) {
  if (!kBf16 && arrays.grad_dtype == DType::f32) return hn::LoadU(Floats(), static_cast<const float*>(arrays.grad) + i);
  const auto* const halves = static_cast<const std::uint16_t*>(arrays.grad) + i;
  return kBf16 || arrays.grad_dtype == DType::bf16 ? Stored<Bf16>::load(halves) : Stored<Fp16>::load(halves);
}

template <typename Arrays>
HWY_INLINE Float load_master(const Arrays& arrays, std::uint64_t i) {
  if constexpr (Arrays::kSplit)
    return load_split(arrays.old.weight + i, arrays.old.master_low + i);
  else
    return hn::LoadU(Floats(), arrays.old.master + i);
}

/// Stores two vectors of masters without their weights. Requires: canonical; aligned to a vector, where `kPastCaches`.
template <bool kPastCaches, typename Arrays>
HWY_INLINE void store_masters(const Arrays& arrays, std::uint64_t i, Float one, Float other) {
  if constexpr (Arrays::kSplit) {
    const Pair low = low_halves(bits_of(one), bits_of(other));
    kPastCaches ? stream_pair(low, arrays.master_low + i) : store_pair(low, arrays.master_low + i);
  } else if constexpr (kPastCaches) {
    Stored<Fp32>::stream(one, other, arrays.master + i);
  } else {
    Stored<Fp32>::store(one, other, arrays.master + i);
  }
}

/// Stores a vector of moments: those of 16 bits are made canonical; those of fp32 are stored as they are, past the
/// caches where `kPastCaches`. Requires: then aligned.
template <bool kPastCaches, typename Format>
HWY_INLINE void store_moments(Float value, typename Format::Bits* to) {
  if constexpr (kPastCaches && sizeof *to == sizeof(float))
    hn::Stream(value, Floats(), to);
  else
    Stored<Format>::store(sizeof *to == sizeof(float) ? value : canonical(value), to);
}

/// clamped of adam_element.h.
HWY_INLINE Float clamped(Float value, Float limit) {
  const Float lowest = hn::Neg(limit);
  value = hn::IfThenElse(hn::Gt(value, limit), limit, value);
  return hn::IfThenElse(hn::Lt(value, lowest), lowest, value);
}

}  // namespace castor::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// SPDX-License-Identifier: Apache-2.0
// The walk over an update's arrays, whatever the rule. Compiled once for each kind of vectors, as stored-inl.h.
#if defined(CASTOR_OFFLOAD_KERNELS_SIMD_UPDATE_LOOP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CASTOR_OFFLOAD_KERNELS_SIMD_UPDATE_LOOP_INL_H_
#undef CASTOR_OFFLOAD_KERNELS_SIMD_UPDATE_LOOP_INL_H_
#else
#define CASTOR_OFFLOAD_KERNELS_SIMD_UPDATE_LOOP_INL_H_
#endif

#include <algorithm>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/simd/stored-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::HWY_NAMESPACE {

/// A tensor is cut into parts of this many elements or more; weights of fewer may be read again while in a cache.
constexpr std::uint64_t kLeastStreamed = std::uint64_t{4} << 10;

/// Where weights are written past the caches: not those that the update reads, which are in a cache already.
template <typename Arrays>
constexpr bool kStreams = Stored<typename Arrays::Weight>::kStreams && !Arrays::kSplit;

/// A line of 16-bit values, two of fp32.
constexpr std::uint64_t kLineElements = 32;
/// How far ahead memory is asked for: 14 requests a line of Adam, where the processor alone keeps too few under way behind a square
/// root and a division.
constexpr std::uint64_t kAheadElements = 256;

template <typename Bits>
HWY_INLINE void ask_for_line(const Bits* data) {
  constexpr std::uint64_t kPerLine = 64 / sizeof(Bits);
  for (std::uint64_t i = 0; i < kLineElements; i += kPerLine) hwy::Prefetch(data + i);
}

template <typename Rule, typename Arrays>
HWY_INLINE void ask_for_lines(const Arrays& arrays, std::uint64_t i) {
  if constexpr (Arrays::kSplit) {
    ask_for_line(arrays.master_low + i);
    ask_for_line(arrays.weight + i);
  } else {
    ask_for_line(arrays.master + i);
  }
  ask_for_line(arrays.exp_avg + i);
  if constexpr (Rule::kKeepsExpAvgSq) ask_for_line(arrays.exp_avg_sq + i);
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
template <bool kPastCaches, typename Rule, typename Arrays>
HWY_INLINE std::uint64_t update_steps(const Rule& rule, const Arrays arrays, std::uint64_t first) {
  using Weight = Stored<typename Arrays::Weight>;
  const std::uint64_t n_lanes = hn::Lanes(Floats());
  const std::uint64_t n_step = std::max<std::uint64_t>(kLineElements, 2 * n_lanes);
  std::uint64_t i = first;
  for (; i + n_step <= arrays.n; i += n_step) {
    ask_for_lines<Rule>(arrays, i + kAheadElements);
    for (std::uint64_t k = i; k < i + n_step; k += 2 * n_lanes) {
      const Float one = rule.updated(arrays, k);
      const Float other = rule.updated(arrays, k + n_lanes);
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

/// Elements from `first` to `end`, one after the other.
template <typename Rule, typename Arrays>
HWY_NOINLINE void update_singly(const typename Rule::Coefficients& c, const Arrays& arrays, std::uint64_t first,
                                std::uint64_t end) {
  for (std::uint64_t i = first; i < end; ++i) Rule::update_one(c, arrays, i);
}

/// All elements of TypedArrays by `Rule`, which is made of its Coefficients and has
/// - `updated(arrays, i)`: updates a vector of states from element i on; returns the new masters, canonical, without having
///   written the weights,
/// - `update_one(coefficients, arrays, i)`: the same of one element, with its weight,
/// - `kKeepsExpAvgSq`.
template <typename Rule, typename Arrays>
void update(const typename Rule::Coefficients& coefficients, const Arrays& arrays) {
  const Rule rule(coefficients);
  std::uint64_t i = 0;
  if constexpr (kStreams<Arrays>) {
    if (arrays.n >= kLeastStreamed) {
      i = unaligned(arrays.weight, 4 * hn::Lanes(Floats()), arrays.n);
      update_singly<Rule>(coefficients, arrays, 0, i);
      i = update_steps<true>(rule, arrays, i);
      hwy::FlushStream();
    }
  }
  if (i == 0) i = update_steps<false>(rule, arrays, 0);
  update_singly<Rule>(coefficients, arrays, i, arrays.n);
}

}  // namespace castor::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

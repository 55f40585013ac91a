// SPDX-License-Identifier: Apache-2.0
// The walk over an update's arrays, for every rule. Compiled once for each kind of vectors, as stored-inl.h.
#if defined(CASTOR_OFFLOAD_KERNELS_SIMD_UPDATE_LOOP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CASTOR_OFFLOAD_KERNELS_SIMD_UPDATE_LOOP_INL_H_
#undef CASTOR_OFFLOAD_KERNELS_SIMD_UPDATE_LOOP_INL_H_
#else
#define CASTOR_OFFLOAD_KERNELS_SIMD_UPDATE_LOOP_INL_H_
#endif

#include <algorithm>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "stored-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::HWY_NAMESPACE {

/// Parts of fewer elements are written through the caches, from which their weights may be read again soon.
constexpr std::uint64_t kLeastStreamed = std::uint64_t{4} << 10;

/// The arrays that are written past the caches.
enum class Past { nothing, weights, all };

/// In an update in place: 16-bit weights that the update does not read, because the other arrays are in a cache
/// already.
template <typename Arrays>
constexpr Past kPastInPlace =
    kHasStreams && !Arrays::kSplit && sizeof(typename Arrays::Weight::Bits) == 2 ? Past::weights : Past::nothing;

template <typename Arrays>
HWY_INLINE Past past_caches(const Arrays& arrays) {
  if (!kHasStreams || arrays.n < kLeastStreamed) return Past::nothing;
  return arrays.in_place() ? kPastInPlace<Arrays> : Past::all;
}

/// Elements of a cache line of 16-bit values, or of two lines of fp32.
constexpr std::uint64_t kLineElements = 32;
/// Distance of the prefetches ahead: 14 requests a line of Adam. Behind a square root and a division the processor
/// alone keeps too few under way.
constexpr std::uint64_t kAheadElements = 256;

template <typename Bits>
HWY_INLINE void ask_for_line(const Bits* data) {
  constexpr std::uint64_t kPerLine = 64 / sizeof(Bits);
  for (std::uint64_t i = 0; i < kLineElements; i += kPerLine) hwy::Prefetch(data + i);
}

template <typename Rule, typename Arrays>
HWY_INLINE void ask_for_lines(const Arrays& arrays, std::uint64_t i) {
  if constexpr (Arrays::kSplit) {
    ask_for_line(arrays.old.master_low + i);
    ask_for_line(arrays.old.weight + i);
  } else {
    ask_for_line(arrays.old.master + i);
  }
  ask_for_line(arrays.old.exp_avg + i);
  if constexpr (Rule::kKeepsExpAvgSq) ask_for_line(arrays.old.exp_avg_sq + i);
  if (arrays.grad_dtype == DType::f32)
    ask_for_line(static_cast<const float*>(arrays.grad) + i);
  else
    ask_for_line(static_cast<const std::uint16_t*>(arrays.grad) + i);
}

/// The number of elements before the first whose weight is aligned to `n_bytes`; `n` where none is.
template <typename Bits>
HWY_INLINE std::uint64_t unaligned(const Bits* weight, std::uint64_t n_bytes, std::uint64_t n) {
  const std::uint64_t beyond = reinterpret_cast<std::uintptr_t>(weight) % n_bytes;
  if (beyond % sizeof(Bits) != 0) return n;
  return std::min<std::uint64_t>(n, beyond == 0 ? 0 : (n_bytes - beyond) / sizeof(Bits));
}

/// True where every array that is written is aligned to `n_bytes` at element `i`.
template <typename Arrays>
HWY_INLINE bool aligned(const Arrays& arrays, std::uint64_t i, std::uint64_t n_bytes) {
  const auto starts_well = [n_bytes](const auto* array) {
    return reinterpret_cast<std::uintptr_t>(array) % n_bytes == 0;
  };
  const bool masters = Arrays::kSplit ? starts_well(arrays.master_low + i) : starts_well(arrays.master + i);
  const bool second = arrays.exp_avg_sq == nullptr || starts_well(arrays.exp_avg_sq + i);
  return starts_well(arrays.weight + i) && masters && starts_well(arrays.exp_avg + i) && second;
}

/// Makes the NaNs of a vector of moments from element `i` on canonical; those of 16 bits are so since they were
/// written.
template <typename Bits>
HWY_INLINE void make_canonical(Bits* moments, std::uint64_t i) {
  if constexpr (sizeof(Bits) == sizeof(float))
    hn::StoreU(canonical(hn::LoadU(Floats(), moments + i)), Floats(), moments + i);
}

/// Stores two vectors of new masters from element `i` on, with their weights. A NaN among the moments makes its master
/// NaN.
template <Past kPast, typename Rule, typename Arrays>
HWY_INLINE void end_pair(const Arrays& arrays, std::uint64_t i, Float one, Float other) {
  using Weight = Stored<typename Arrays::Weight>;
  if (HWY_UNLIKELY(!hn::AllFalse(Floats(), hn::IsNaN(hn::Add(one, other))))) {
    for (const std::uint64_t k : {i, i + hn::Lanes(Floats())}) {
      make_canonical(arrays.exp_avg, k);
      if constexpr (Rule::kKeepsExpAvgSq) make_canonical(arrays.exp_avg_sq, k);
    }
    one = canonical(one), other = canonical(other);
  }
  store_masters<kPast == Past::all>(arrays, i, one, other);
  if constexpr (kPast != Past::nothing)
    Weight::stream(one, other, arrays.weight + i);
  else
    Weight::store(one, other, arrays.weight + i);
}

/// Updates the elements of whole steps from `first` on; returns the first element that is left to the caller. A square
/// root and a division take longer than a processor looks ahead, so the next pair of vectors begins before this one
/// ends.
///
/// Requires: the arrays that are written past the caches are aligned at `first` to two vectors of halves.
template <Past kPast, typename Rule, typename Arrays>
HWY_INLINE std::uint64_t update_steps(const Rule& rule, const Arrays arrays, std::uint64_t first) {
  constexpr bool kAll = kPast == Past::all;
  const std::uint64_t n_lanes = hn::Lanes(Floats()), n_pair = 2 * n_lanes;
  const std::uint64_t n_step = std::max(kLineElements, n_pair);
  const std::uint64_t end = first + (arrays.n - first) / n_step * n_step;
  if (first == end) return first;
  auto next_one = rule.template begin<kAll>(arrays, first);
  auto next_other = rule.template begin<kAll>(arrays, first + n_lanes);
  for (std::uint64_t i = first; i < end; i += n_step) {
    ask_for_lines<Rule>(arrays, i + kAheadElements);
    for (std::uint64_t k = i; k < i + n_step; k += n_pair) {
      const auto one = next_one, other = next_other;
      if (HWY_LIKELY(k + n_pair < end)) {
        next_one = rule.template begin<kAll>(arrays, k + n_pair);
        next_other = rule.template begin<kAll>(arrays, k + n_pair + n_lanes);
      }
      end_pair<kPast, Rule>(arrays, k, rule.end(one), rule.end(other));
    }
  }
  return end;
}

/// Updates the elements from `first` to `end`, one after the other.
template <typename Rule, typename Arrays>
HWY_NOINLINE void update_singly(const typename Rule::Coefficients& c, const Arrays& arrays, std::uint64_t first,
                                std::uint64_t end) {
  for (std::uint64_t i = first; i < end; ++i) Rule::update_one(c, arrays, i);
}

/// Updates all elements of TypedArrays by `Rule`, which is constructed from its Coefficients and has
/// - `begin<kPastCaches>(arrays, i)`: updates a vector of moments from element i on; those of fp32 are written as they
///   are, past the caches where `kPastCaches`; returns the argument of `end`,
/// - `end(begun)`: the new masters, NaN where a moment is NaN; writes nothing,
/// - `update_one(coefficients, arrays, i)`: the whole update of one element, with its weight,
/// - `kKeepsExpAvgSq`.
template <typename Rule, typename Arrays>
void update(const typename Rule::Coefficients& coefficients, const Arrays& arrays) {
  const Rule rule(coefficients);
  const Past past = past_caches(arrays);
  const std::uint64_t n_bytes = 4 * hn::Lanes(Floats());
  std::uint64_t i = past == Past::nothing ? 0 : unaligned(arrays.weight, n_bytes, arrays.n);
  update_singly<Rule>(coefficients, arrays, 0, i);
  if (past == Past::nothing)
    i = update_steps<Past::nothing>(rule, arrays, i);
  else if (past == Past::all && aligned(arrays, i, n_bytes))
    i = update_steps<Past::all>(rule, arrays, i);
  else
    i = update_steps<kPastInPlace<Arrays>>(rule, arrays, i);
  if (past != Past::nothing) hwy::FlushStream();
  update_singly<Rule>(coefficients, arrays, i, arrays.n);
}

}  // namespace castor::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

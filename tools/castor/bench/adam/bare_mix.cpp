// SPDX-License-Identifier: Apache-2.0
#include "bench/adam/bare_mix.h"

#include <limits>

// Highway compiles the code below once for each vector target, by including this file again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/adam/bare_mix.cpp"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace castor::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Halves = hn::ScalableTag<std::uint16_t>;

/// The elements of one cache line of 16-bit values: the step of the loop for every vector size.
constexpr std::uint64_t kStep = 32;
constexpr std::uint64_t kFloatsPerLine = 16;

HWY_INLINE void ask_for(const float* data) {
  hwy::Prefetch(data);
  hwy::Prefetch(data + kFloatsPerLine);
}

/// Loads a vector of each array before the first store, because the addresses of the stores agree with theirs in the
/// low bits.
HWY_INLINE void touch(const UpdateArrays& arrays, hn::Vec<Floats> least, std::uint64_t i) {
  const Floats d;
  const auto p = hn::Max(hn::Load(d, arrays.master + i), least);
  float* const exp_avg = static_cast<float*>(arrays.exp_avg) + i;
  float* const exp_avg_sq = static_cast<float*>(arrays.exp_avg_sq) + i;
  const auto m = hn::Max(hn::Load(d, exp_avg), least);
  const auto v = hn::Max(hn::Load(d, exp_avg_sq), least);
  hn::Store(p, d, arrays.master + i);
  hn::Store(m, d, exp_avg);
  hn::Store(v, d, exp_avg_sq);
}

template <bool kAhead>
void move(const UpdateArrays& arrays, std::uint64_t ahead) {
  const auto* const grad = static_cast<const std::uint16_t*>(arrays.grad);
  auto* const weight = static_cast<std::uint16_t*>(arrays.weight);
  const auto least = hn::Set(Floats(), std::numeric_limits<float>::lowest());
  for (std::uint64_t i = 0; i < arrays.n; i += kStep) {
    if constexpr (kAhead) {
      ask_for(arrays.master + i + ahead);
      ask_for(static_cast<const float*>(arrays.exp_avg) + i + ahead);
      ask_for(static_cast<const float*>(arrays.exp_avg_sq) + i + ahead);
      hwy::Prefetch(grad + i + ahead);
    }
    for (std::uint64_t k = 0; k < kStep; k += hn::Lanes(Floats())) touch(arrays, least, i + k);
    for (std::uint64_t k = 0; k < kStep; k += hn::Lanes(Halves()))
      hn::Stream(hn::Load(Halves(), grad + i + k), Halves(), weight + i + k);
  }
  hwy::FlushStream();
}

void move_either(const UpdateArrays& arrays, std::uint64_t ahead) {
  ahead == 0 ? move<false>(arrays, 0) : move<true>(arrays, ahead);
}

}  // namespace castor::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::bench {

HWY_EXPORT(move_either);

void move_bare(const UpdateArrays& arrays, std::uint64_t ahead_elements) {
  HWY_DYNAMIC_DISPATCH(move_either)(arrays, ahead_elements);
}

}  // namespace castor::bench
#endif

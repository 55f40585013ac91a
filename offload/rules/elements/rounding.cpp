// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/update_arrays.h>

#include "formats.h"

namespace castor {

using namespace kernels;

void round_weights(const float* master, DType dtype, void* weight, std::uint64_t n) {
  with_format(dtype, [&](auto format) {
    using Weight = decltype(format);
    auto* __restrict const rounded = static_cast<typename Weight::Bits*>(weight);
    for (std::uint64_t i = 0; i < n; ++i) rounded[i] = Weight::narrow(master[i]);
  });
}

void widen_weights(const void* weight, DType dtype, float* out, std::uint64_t n) {
  with_format(dtype, [&](auto format) {
    using Weight = decltype(format);
    const auto* __restrict const stored = static_cast<const typename Weight::Bits*>(weight);
    for (std::uint64_t i = 0; i < n; ++i) out[i] = Weight::widen(stored[i]);
  });
}

void split_masters(const float* master, std::uint16_t* weight, std::uint16_t* master_low, std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) {
    weight[i] = Bf16::narrow(master[i]);
    master_low[i] = low_bits(master[i]);
  }
}

void join_masters(const std::uint16_t* weight, const std::uint16_t* master_low, float* master, std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) master[i] = joined(weight[i], master_low[i]);
}

std::uint16_t round_to_bf16(float value) { return Bf16::narrow(value); }
std::uint16_t round_to_f16(float value) { return Fp16::narrow(value); }
float bf16_to_float(std::uint16_t bits) { return Bf16::widen(bits); }
float f16_to_float(std::uint16_t bits) { return Fp16::widen(bits); }

}  // namespace castor

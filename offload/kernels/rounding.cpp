// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/adam.h>

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

std::uint16_t round_to_bf16(float value) { return Bf16::narrow(value); }
std::uint16_t round_to_f16(float value) { return Fp16::narrow(value); }
float bf16_to_float(std::uint16_t bits) { return Bf16::widen(bits); }
float f16_to_float(std::uint16_t bits) { return Fp16::widen(bits); }

}  // namespace castor

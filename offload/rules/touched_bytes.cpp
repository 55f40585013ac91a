// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/update_arrays.h>

namespace castor {
namespace {

std::uint64_t state_bytes(const UpdateArrays& arrays) {
  const std::uint64_t second = arrays.exp_avg_sq == nullptr ? 0 : size_bytes(exp_avg_sq_dtype(arrays.moments));
  return arrays.n * ((arrays.master == nullptr ? 2 : 4) + size_bytes(exp_avg_dtype(arrays.moments)) + second);
}

std::uint64_t weight_bytes(const UpdateArrays& arrays) { return arrays.n * size_bytes(arrays.weight_dtype); }
std::uint64_t gradient_bytes(const UpdateArrays& arrays) { return arrays.n * size_bytes(arrays.grad_dtype); }
bool is_split(const UpdateArrays& arrays) { return arrays.master == nullptr; }

}  // namespace

std::uint64_t touched_bytes(const UpdateArrays& arrays) {
  return 2 * state_bytes(arrays) + gradient_bytes(arrays) + (is_split(arrays) ? 2 : 1) * weight_bytes(arrays);
}

std::uint64_t measured_bytes(const UpdateArrays& arrays) {
  return state_bytes(arrays) + gradient_bytes(arrays) + (is_split(arrays) ? weight_bytes(arrays) : 0);
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "elements/adam_element.h"
#include "cuda_launch.h"

/// The walk over the arrays of a rule with Adam's two moments.
namespace castor::kernels {

constexpr unsigned kThreads = 256;

/// Elements that a thread updates: neighbours, so that an access to an fp32 array moves 16 bytes.
constexpr unsigned kPerThread = 4;

template <typename Value>
struct alignas(kPerThread * sizeof(Value)) Pack {
  Value values[kPerThread];
};

template <typename Value>
__device__ Pack<Value> pack_at(const Value* array, std::uint64_t i) {
  return *reinterpret_cast<const Pack<Value>*>(array + i);
}

template <typename Value>
__device__ void put_pack(Value* array, std::uint64_t i, const Pack<Value>& pack) {
  *reinterpret_cast<Pack<Value>*>(array + i) = pack;
}

template <typename Arrays>
__device__ Pack<float> grads_at(const Arrays& arrays, std::uint64_t i) {
  if (arrays.grad_dtype == DType::f32) return pack_at(static_cast<const float*>(arrays.grad), i);
  const auto stored = pack_at(static_cast<const std::uint16_t*>(arrays.grad), i);
  Pack<float> grads;
  for (unsigned k = 0; k < kPerThread; ++k)
    grads.values[k] = arrays.grad_dtype == DType::bf16 ? Bf16::widen(stored.values[k]) : Fp16::widen(stored.values[k]);
  return grads;
}

/// Updates the elements from `i` on with one access to each array: the thread works on arrays of its own in between.
template <typename Rule, typename Arrays>
__device__ void update_pack(const typename Rule::Coefficients& c, const Arrays& arrays, std::uint64_t i) {
  const auto grads = grads_at(arrays, i);
  Pack<float> masters;
  Pack<std::uint16_t> low;
  Pack<typename Arrays::Weight::Bits> weights;
  if constexpr (Arrays::kSplit) {
    low = pack_at(arrays.old.master_low, i);
    weights = pack_at(arrays.old.weight, i);
  } else {
    masters = pack_at(arrays.old.master, i);
  }
  auto exp_avg = pack_at(arrays.old.exp_avg, i);
  auto exp_avg_sq = pack_at(arrays.old.exp_avg_sq, i);

  Arrays own = arrays;
  own.grad = grads.values;
  own.grad_dtype = DType::f32;
  own.master = masters.values;
  own.master_low = low.values;
  own.weight = weights.values;
  own.exp_avg = exp_avg.values;
  own.exp_avg_sq = exp_avg_sq.values;
  own.old = {own.master, own.master_low, own.exp_avg, own.exp_avg_sq, own.weight};
  own.first = arrays.first + static_cast<std::uint32_t>(i);
#pragma unroll
  for (unsigned k = 0; k < kPerThread; ++k) Rule::update_one(c, own, k);

  if constexpr (Arrays::kSplit)
    put_pack(arrays.master_low, i, low);
  else
    put_pack(arrays.master, i, masters);
  put_pack(arrays.weight, i, weights);
  put_pack(arrays.exp_avg, i, exp_avg);
  put_pack(arrays.exp_avg_sq, i, exp_avg_sq);
}

template <typename Rule, typename Arrays>
__global__ void __launch_bounds__(kThreads) update_packs(const typename Rule::Coefficients c, const Arrays arrays) {
  std::uint64_t i = (std::uint64_t{blockIdx.x} * kThreads + threadIdx.x) * kPerThread;
  if (i + kPerThread <= arrays.n) return update_pack<Rule>(c, arrays, i);
  for (; i < arrays.n; ++i) Rule::update_one(c, arrays, i);
}

template <typename Rule, typename Arrays>
__global__ void __launch_bounds__(kThreads) update_elements(const typename Rule::Coefficients c, const Arrays arrays) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < arrays.n) Rule::update_one(c, arrays, i);
}

/// True where every array, and every old array that is read in its place, is aligned for a Pack of its elements.
inline bool packs_are_aligned(const UpdateArrays& arrays) {
  const auto aligned = [](const void* array, DType dtype) {
    return reinterpret_cast<std::uintptr_t>(array) % (kPerThread * size_bytes(dtype)) == 0;
  };
  return aligned(arrays.master, DType::f32) && aligned(arrays.master_low, DType::bf16) &&
         aligned(arrays.exp_avg, exp_avg_dtype(arrays.moments)) &&
         aligned(arrays.exp_avg_sq, exp_avg_sq_dtype(arrays.moments)) && aligned(arrays.grad, arrays.grad_dtype) &&
         aligned(arrays.weight, arrays.weight_dtype) && arrays.old_states % sizeof(Pack<float>) == 0 &&
         arrays.old_weight % sizeof(Pack<float>) == 0;
}

/// Queues the update of `arrays` by `Rule`, which has Coefficients and `update_one(coefficients, arrays, i)` of one
/// element, for both moments and all formats. The last argument names the rule in messages.
template <typename Rule>
Result<void> launch_update(Stream& stream, const typename Rule::Coefficients& c, const UpdateArrays& arrays,
                           const std::string& who) {
  if (arrays.n == 0) return {};
  CASTOR_ASSIGN(const int device, device_of(arrays.exp_avg, who + " on the GPU: exp_avg"));
  const CurrentDevice current(device);
  const bool by_packs = packs_are_aligned(arrays);
  const std::uint64_t per_block = kThreads * (by_packs ? kPerThread : 1);
  const cudaError_t status = with_types(arrays, [&](const auto& typed) {
    using Arrays = std::decay_t<decltype(typed)>;
    return launch(stream, (arrays.n + per_block - 1) / per_block, kThreads,
                  by_packs ? update_packs<Rule, Arrays> : update_elements<Rule, Arrays>, c, typed);
  });
  return cuda_result(status, who + " on the GPU: updating " + std::to_string(arrays.n) + " elements");
}

}  // namespace castor::kernels

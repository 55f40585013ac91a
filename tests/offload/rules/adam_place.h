// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include <castor/rules/update_rule.h>

#include "adam_data.h"
#include "kernel_place.h"

namespace castor::testing {

/// The updates of a rule on the host or on the GPU, over arrays in ordinary memory, to which the results are copied
/// back.
template <typename Coefficients>
class RulePlace : public KernelPlace {
 protected:
  /// `data` after one update by the kernel of this place; every array starts `offset` elements into its memory.
  AdamData updated(const Coefficients& coefficients, AdamData data, std::uint64_t offset = 0) {
    const Buffer master = upload(data.master, offset), exp_avg = upload(data.exp_avg, offset),
                 exp_avg_sq = upload(data.exp_avg_sq, offset);
    const std::uint64_t grad_offset = offset * size_bytes(data.grad_dtype),
                        weight_offset = offset * size_bytes(data.weight_dtype);
    const Buffer grad = upload(data.grad, grad_offset), weight = upload(data.weight, weight_offset);
    UpdateArrays arrays{
        floats(master, offset),        floats(exp_avg, offset), floats(exp_avg_sq, offset), grad.data() + grad_offset,
        weight.data() + weight_offset, data.grad_dtype,         data.weight_dtype,          data.n()};
    run(coefficients, arrays);
    download(master, data.master, offset);
    download(exp_avg, data.exp_avg, offset);
    download(exp_avg_sq, data.exp_avg_sq, offset);
    download(weight, data.weight, weight_offset);
    return data;
  }

  /// The same for arrays in their stored format.
  PackedAdam updated(const Coefficients& coefficients, PackedAdam data) {
    const Buffer master = upload(data.master), exp_avg = upload(data.exp_avg), exp_avg_sq = upload(data.exp_avg_sq),
                 grad = upload(data.grad), weight = upload(data.weight);
    UpdateArrays arrays = data.arrays();
    if (data.split_master)
      arrays.master_low = reinterpret_cast<std::uint16_t*>(master.data());
    else
      arrays.master = reinterpret_cast<float*>(master.data());
    arrays.exp_avg = exp_avg.data(), arrays.exp_avg_sq = exp_avg_sq.data();
    arrays.grad = grad.data(), arrays.weight = weight.data();
    run(coefficients, arrays);
    download(master, data.master);
    download(exp_avg, data.exp_avg);
    download(exp_avg_sq, data.exp_avg_sq);
    download(weight, data.weight);
    return data;
  }

  /// The update of one element with an fp32 gradient and weight.
  AdamData updated(const Coefficients& coefficients, float master, float exp_avg, float exp_avg_sq, float grad) {
    AdamData data(1, DType::f32, DType::f32);
    data.master[0] = master;
    data.exp_avg[0] = exp_avg;
    data.exp_avg_sq[0] = exp_avg_sq;
    *static_cast<float*>(static_cast<void*>(data.grad.data())) = grad;
    return updated(coefficients, std::move(data));
  }

 private:
  /// A rule without exp_avg_sq gets none.
  void run(const Coefficients& coefficients, UpdateArrays arrays) {
    if constexpr (std::is_same_v<Coefficients, SgdCoefficients>) arrays.exp_avg_sq = nullptr;
    UpdateKernels::make(device()).value().update(stream(), coefficients, arrays).value();
  }
  static float* floats(const Buffer& buffer, std::uint64_t offset) {
    return reinterpret_cast<float*>(buffer.data()) + offset;
  }
};

using AdamPlace = RulePlace<AdamCoefficients>;
using SgdPlace = RulePlace<SgdCoefficients>;
using LambPlace = RulePlace<LambCoefficients>;

}  // namespace castor::testing

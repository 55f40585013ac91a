// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/adam.h>

#include <cmath>

#include "adam_element.h"
#include "float_environment.h"
#include "formats.h"

namespace castor {
namespace {

using namespace kernels;

/// One loop per pair of element types, so that the compiler sees straight-line code to vectorise. __restrict: the
/// arrays do not overlap.
template <typename Grad, typename Weight, bool kDecoupled>
void update_elements(const AdamCoefficients c, const AdamArrays& arrays) {
  float* __restrict const master = arrays.master;
  float* __restrict const exp_avg = arrays.exp_avg;
  float* __restrict const exp_avg_sq = arrays.exp_avg_sq;
  const auto* __restrict const grad = static_cast<const typename Grad::Bits*>(arrays.grad);
  auto* __restrict const weight = static_cast<typename Weight::Bits*>(arrays.weight);
  for (std::uint64_t i = 0; i < arrays.n; ++i) {
    const auto e = with_moments<kDecoupled>(c, Grad::widen(grad[i]), {master[i], exp_avg[i], exp_avg_sq[i]});
    const float p = canonical(next_master<kDecoupled>(c, e, std::sqrt(e.exp_avg_sq)));
    master[i] = p;
    exp_avg[i] = canonical(e.exp_avg);
    exp_avg_sq[i] = canonical(e.exp_avg_sq);
    weight[i] = Weight::narrow(p);
  }
}

template <typename Grad, typename Weight>
void update_elements(const AdamCoefficients& c, const AdamArrays& arrays) {
  c.decoupled_decay ? update_elements<Grad, Weight, true>(c, arrays) : update_elements<Grad, Weight, false>(c, arrays);
}

class HostAdam final : public AdamKernel {
 public:
  Result<void> update(Stream&, const AdamCoefficients& coefficients, const AdamArrays& arrays) override {
    const DefaultFloatEnvironment environment;
    with_format(arrays.grad_dtype, [&](auto grad) {
      with_format(arrays.weight_dtype,
                  [&](auto weight) { update_elements<decltype(grad), decltype(weight)>(coefficients, arrays); });
    });
    return {};
  }
};

}  // namespace

std::unique_ptr<AdamKernel> make_host_adam() { return std::make_unique<HostAdam>(); }

}  // namespace castor

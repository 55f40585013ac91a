// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/grad_norm.h>

#include <algorithm>

#include "float_environment.h"
#include "formats.h"
#include "norm_order.h"

namespace castor {
namespace {

using namespace kernels;

/// The sum over one block of `n` <= kNormBlock elements. Lanes lie side by side, so that a row of them is one
/// vectorised loop.
template <typename Grad>
double block_sum(const typename Grad::Bits* __restrict grad, std::uint64_t n) {
  double lanes[kNormLanes] = {};
  for (std::uint64_t row = 0; row < n; row += kNormLanes) {
    const std::uint64_t width = std::min(kNormLanes, n - row);
    for (std::uint64_t lane = 0; lane < width; ++lane) lanes[lane] += square(Grad::widen(grad[row + lane]));
  }
  for (std::uint64_t half = kNormLanes / 2; half > 0; half /= 2)
    for (std::uint64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

template <typename Grad>
double tensor_sum(const void* grad, std::uint64_t n) {
  const auto* elements = static_cast<const typename Grad::Bits*>(grad);
  double sum = 0;
  for (std::uint64_t start = 0; start < n; start += kNormBlock)
    sum += block_sum<Grad>(elements + start, std::min(kNormBlock, n - start));
  return canonical_sum(sum);
}

class HostGradNorm final : public GradNormKernel {
 public:
  Result<void> sum_of_squares(Stream&, const void* grad, DType dtype, std::uint64_t n, double* sum) override {
    const DefaultFloatEnvironment environment;
    *sum = with_format(dtype, [&](auto format) { return tensor_sum<decltype(format)>(grad, n); });
    return {};
  }
};

}  // namespace

std::unique_ptr<GradNormKernel> make_host_grad_norm() { return std::make_unique<HostGradNorm>(); }

}  // namespace castor

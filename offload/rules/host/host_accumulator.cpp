// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/grad_accumulator.h>

#include "float_environment.h"
#include "elements/formats.h"

namespace castor {
namespace {

using namespace kernels;

template <typename Grad>
void widen_all(float* __restrict sum, const void* grad, std::uint64_t n) {
  const auto* elements = static_cast<const typename Grad::Bits*>(grad);
  for (std::uint64_t i = 0; i < n; ++i) sum[i] = Grad::widen(elements[i]);
}

template <typename Grad>
void add_all(float* __restrict sum, const void* grad, std::uint64_t n) {
  const auto* elements = static_cast<const typename Grad::Bits*>(grad);
  for (std::uint64_t i = 0; i < n; ++i) sum[i] = canonical(sum[i] + Grad::widen(elements[i]));
}

class HostAccumulator final : public GradAccumulator {
 public:
  Result<void> widen(Stream&, float* sum, const void* grad, DType dtype, std::uint64_t n) override {
    with_format(dtype, [&](auto format) { widen_all<decltype(format)>(sum, grad, n); });
    return {};
  }
  Result<void> add(Stream&, float* sum, const void* grad, DType dtype, std::uint64_t n) override {
    const DefaultFloatEnvironment environment;
    with_format(dtype, [&](auto format) { add_all<decltype(format)>(sum, grad, n); });
    return {};
  }
};

}  // namespace

std::unique_ptr<GradAccumulator> make_host_accumulator() { return std::make_unique<HostAccumulator>(); }

}  // namespace castor

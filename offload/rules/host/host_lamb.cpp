// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/lamb.h>

#include "float_environment.h"
#include "lamb_loops.h"

namespace castor {
namespace {

class HostLamb final : public LambKernel {
 public:
  Result<void> update(Stream&, const LambCoefficients& coefficients, const UpdateArrays& arrays) override {
    const kernels::DefaultFloatEnvironment environment;
    kernels::update_by_vectors(coefficients, arrays);
    return {};
  }
};

}  // namespace

LambCoefficients lamb_coefficients(const LambOptions& options, std::uint64_t t, double grad_scale) {
  const kernels::DefaultFloatEnvironment environment;
  const AdamOptions of_direction{1, options.beta1, options.beta2, options.eps, options.weight_decay};
  return {adam_coefficients(of_direction, t, grad_scale), static_cast<float>(options.lr)};
}

std::unique_ptr<LambKernel> make_host_lamb() { return std::make_unique<HostLamb>(); }

}  // namespace castor

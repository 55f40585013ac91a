// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/sgd.h>

#include "float_environment.h"
#include "sgd_loops.h"

namespace castor {
namespace {

class HostSgd final : public SgdKernel {
 public:
  Result<void> update(Stream&, const SgdCoefficients& coefficients, const UpdateArrays& arrays) override {
    const kernels::DefaultFloatEnvironment environment;
    kernels::update_by_vectors(coefficients, arrays);
    return {};
  }
};

}  // namespace

SgdCoefficients sgd_coefficients(const SgdOptions& options, double grad_scale) {
  const kernels::DefaultFloatEnvironment environment;
  const auto rounded = [](double value) { return static_cast<float>(value); };
  SgdCoefficients c{};
  c.grad_scale = rounded(grad_scale);
  c.decay = rounded(options.weight_decay);
  c.momentum = rounded(options.momentum);
  c.lr = rounded(options.lr);
  c.nesterov = options.nesterov;
  c.max_value = options.max_value > 0 ? rounded(options.max_value) : std::numeric_limits<float>::infinity();
  return c;
}

std::unique_ptr<SgdKernel> make_host_sgd() { return std::make_unique<HostSgd>(); }

}  // namespace castor

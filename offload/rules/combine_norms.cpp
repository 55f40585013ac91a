// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/grad_norm.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace castor {

StepScale combine_norms(const double* sums, std::uint64_t n_tensors, double max_norm, double loss_scale) {
  if (!(loss_scale > 0))
    throw ContractViolation("combine_norms: the loss scale must be positive, it is " + std::to_string(loss_scale));
  double total = 0;
  for (std::uint64_t i = 0; i < n_tensors; ++i) total += sums[i];

  StepScale step;
  step.skip = !std::isfinite(total);
  step.grad_norm = std::sqrt(total) / loss_scale;
  step.grad_scale = 1 / loss_scale;
  if (max_norm > 0 && !step.skip) step.grad_scale *= std::min(1.0, max_norm / (step.grad_norm + 1e-6));
  return step;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/grad_norm.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace castor {

double clip_factor(double norm, double max_norm) { return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1; }

StepScale combine_norms(const double* sums, std::uint64_t n_tensors, double max_norm, double loss_scale) {
  if (!(loss_scale > 0))
    throw ContractViolation("combine_norms: the loss scale must be positive, it is " + std::to_string(loss_scale));
  double total = 0;
  for (std::uint64_t i = 0; i < n_tensors; ++i) total += sums[i];

  StepScale step;
  step.skip = !std::isfinite(total);
  step.grad_norm = std::sqrt(total) / loss_scale;
  step.grad_scale = 1 / loss_scale;
  if (!step.skip) step.grad_scale *= clip_factor(step.grad_norm, max_norm);
  return step;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/rules/trust_ratio.h>

/// The same lines for host and GPU; the caller takes the square roots, since constexpr code cannot.
namespace castor::kernels {

constexpr float ratio_of_norms(const TrustTerms& terms, double weight_norm, double grad_norm) {
  if (!(weight_norm > 0) || !(grad_norm > 0)) return 1;
  const double scaled = terms.grad_scale * grad_norm;
  const double decay = terms.weight_decay != 0 ? terms.weight_decay * weight_norm : 0;  // 0 for an infinite norm too
  return static_cast<float>(terms.coefficient * weight_norm / (scaled + decay + terms.eps));
}

}  // namespace castor::kernels

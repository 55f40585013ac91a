// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/rules/lamb.h>

#include "adam_element.h"

/// The arithmetic of one element, as adam_element.h: the same lines for the GPU and for the host's single elements.
namespace castor::kernels {

/// lr·λ.
constexpr float lamb_rate(const LambCoefficients& c) { return c.trust == nullptr ? c.lr : c.lr * *c.trust; }

/// r. `e` is the result of with_moments, `root` the square root of its exp_avg_sq.
constexpr float lamb_direction(const AdamCoefficients& c, const AdamElement& e, float root) {
  return c.step_size * moment_ratio(c, e, root) + c.decay * e.master;
}

}  // namespace castor::kernels

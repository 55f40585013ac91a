// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/rules/sgd.h>

#include "adam_element.h"

/// The arithmetic of one element, as adam_element.h: the same lines for the GPU and for the host's single elements.
namespace castor::kernels {

struct SgdElement {
  float master, momentum;
};

constexpr float trust_of(const SgdCoefficients& c) { return c.trust == nullptr ? 1.0f : *c.trust; }

constexpr SgdElement sgd_updated(const SgdCoefficients& c, float grad, SgdElement e) {
  const float g = trust_of(c) * (clamped(grad * c.grad_scale, c.max_value) + c.decay * e.master);
  e.momentum = c.momentum * e.momentum + g;
  const float direction = c.nesterov ? g + c.momentum * e.momentum : e.momentum;
  e.master = e.master - c.lr * direction;
  return e;
}

/// Loads, updates and stores element `i` of TypedArrays, whose exp_avg is the momentum.
template <typename Arrays>
constexpr void update_sgd_element(const SgdCoefficients& c, const Arrays& arrays, std::uint64_t i) {
  const float momentum = Arrays::ExpAvg::widen(arrays.old.exp_avg[i]);
  const SgdElement e = sgd_updated(c, arrays.load_grad(i), {arrays.load_master(i), momentum});
  arrays.store_master(i, canonical(e.master));
  arrays.exp_avg[i] = Arrays::ExpAvg::narrow(canonical(e.momentum));
}

}  // namespace castor::kernels

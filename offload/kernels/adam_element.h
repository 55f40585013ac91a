// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/offload/adam.h>

/// The arithmetic of one element, the same lines for the GPU and for what the host does singly. Every operator rounds
/// once: both compilers are told not to contract. The square root between the two halves is the caller's, since there is
/// none in constexpr.
namespace castor::kernels {

struct AdamElement {
  float master, exp_avg, exp_avg_sq;
};

/// The moments after the gradient `grad`; the master as it was.
template <bool kDecoupled>
constexpr AdamElement with_moments(const AdamCoefficients& c, float grad, AdamElement e) {
  float g = grad * c.grad_scale;
  if constexpr (!kDecoupled) g = g + c.decay * e.master;
  e.exp_avg = c.beta1 * e.exp_avg + c.one_minus_beta1 * g;
  e.exp_avg_sq = c.beta2 * e.exp_avg_sq + (c.one_minus_beta2 * g) * g;
  return e;
}

/// The new master. `e`: as with_moments gave it; `root`: the square root of its exp_avg_sq.
template <bool kDecoupled>
constexpr float next_master(const AdamCoefficients& c, const AdamElement& e, float root) {
  const float denominator = root * c.rsqrt_bias2 + c.eps;
  float p = e.master;
  if constexpr (kDecoupled) p = p - c.decay * p;
  return p - c.step_size * (e.exp_avg / denominator);
}

}  // namespace castor::kernels

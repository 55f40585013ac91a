// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/rules/lamb.h>

#include "bounded.h"

namespace castor::testing {

/// An element before its update.
struct AdamInputs {
  double master, exp_avg, exp_avg_sq, grad;
};

struct BoundedMoments {
  Bounded exp_avg, exp_avg_sq, ratio;  ///< ratio: exp_avg over the corrected root with eps
};

/// The moments of Kingma and Ba, algorithm 1, in fp64 over coefficients that were rounded once. `o` are options with
/// betas and eps, `g` is the gradient that enters the moments.
template <typename Options>
BoundedMoments bounded_moments(const Options& o, double t, const Bounded& g, const AdamInputs& before) {
  const Bounded m = once(o.beta1) * exact(before.exp_avg) + once(1 - o.beta1) * g;
  const Bounded v = once(o.beta2) * exact(before.exp_avg_sq) + (once(1 - o.beta2) * g) * g;
  const Bounded d = square_root(v) * once(1 / std::sqrt(1 - std::pow(o.beta2, t))) + once(o.eps);
  return {m, v, m / d};
}

struct BoundedLamb {
  Bounded exp_avg, exp_avg_sq, direction;
};

/// Algorithm 2 of You et al. (2020) up to the norms.
inline BoundedLamb bounded_lamb(const LambOptions& o, std::uint64_t t, double scale, const AdamInputs& before) {
  const auto steps = static_cast<double>(t);
  const BoundedMoments moments = bounded_moments(o, steps, exact(before.grad) * once(scale), before);
  const Bounded adapted = once(1 / (1 - std::pow(o.beta1, steps))) * moments.ratio;
  return {moments.exp_avg, moments.exp_avg_sq, adapted + once(o.weight_decay) * exact(before.master)};
}

}  // namespace castor::testing

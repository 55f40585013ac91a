// SPDX-License-Identifier: Apache-2.0
// Adam against fp64 from the options, with a bound that is computed beside every value.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "adam_place.h"
#include "bounded_adam.h"

namespace castor {
namespace {

using testing::AdamData;
using testing::Bounded;
using testing::exact;
using testing::expect_within;
using testing::kUnit;
using testing::once;

struct BoundedAdam {
  Bounded master, exp_avg, exp_avg_sq;
};

/// Algorithm 1 of Kingma and Ba with AdamW's decay or L2, in fp64, over coefficients that were rounded once.
BoundedAdam bounded_update(const AdamOptions& o, double t, double scale, const testing::AdamInputs& before) {
  Bounded p = exact(before.master);
  Bounded g = exact(before.grad) * once(scale);
  if (!o.decoupled_decay) g = g + once(o.weight_decay) * p;
  const testing::BoundedMoments moments = testing::bounded_moments(o, t, g, before);
  if (o.decoupled_decay) p = p - once(o.lr * o.weight_decay) * p;
  return {p - once(o.lr / (1 - std::pow(o.beta1, t))) * moments.ratio, moments.exp_avg, moments.exp_avg_sq};
}

class AdamBound : public testing::AdamPlace {
 protected:
  void check(const AdamOptions& options, std::uint64_t t, double scale) {
    SCOPED_TRACE(::testing::Message() << "t " << t << ", decoupled " << options.decoupled_decay);
    std::mt19937_64 random(t);
    const AdamData before = testing::plausible_data(random, 20000);
    const AdamData after = updated(adam_coefficients(options, t, scale), before);
    const auto* grad = reinterpret_cast<const float*>(before.grad.data());
    for (std::uint64_t i = 0; i < before.n(); ++i) {
      const auto wanted = bounded_update(options, static_cast<double>(t), scale,
                                         {before.master[i], before.exp_avg[i], before.exp_avg_sq[i], grad[i]});
      expect_within(after.master[i], wanted.master, "master", i);
      expect_within(after.exp_avg[i], wanted.exp_avg, "exp_avg", i);
      expect_within(after.exp_avg_sq[i], wanted.exp_avg_sq, "exp_avg_sq", i);
      // The bound must be tight. Master: three roundings of about |p|, and some twenty of the step (a step of about lr,
      // or as large as L2 makes it).
      const double step = std::fabs(wanted.master.value - before.master[i]);
      ASSERT_LE(wanted.master.error, kUnit * (4 * std::fabs(before.master[i]) + 40 * step + 40 * options.lr));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(On, AdamBound, testing::all_places(), testing::place_name);

TEST_P(AdamBound, StaysWithinTheRunningErrorBoundOfFp64) {
  for (const std::uint64_t t : {1u, 2u, 50u, 5000u}) {
    check({.lr = 1e-3, .weight_decay = 0.1}, t, 1.0 / 3);
    check({.lr = 1e-3, .weight_decay = 1e-4, .decoupled_decay = false}, t, 1.0 / 3);
  }
}

}  // namespace
}  // namespace castor

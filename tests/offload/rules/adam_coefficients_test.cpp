// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <castor/rules/adam.h>

#include "naive_formats.h"

namespace castor {
namespace {

/// Floats between `a` and `b`, both positive.
int ulps_between(float a, float b) {
  return std::abs(static_cast<int>(testing::bits_of(a)) - static_cast<int>(testing::bits_of(b)));
}

TEST(AdamCoefficients, FirstUpdate) {
  const AdamCoefficients c =
      adam_coefficients({.lr = 1e-3, .beta1 = 0.75, .beta2 = 0.9375, .eps = 1e-8, .weight_decay = 0.1}, 1, 0.5);
  EXPECT_EQ(c.grad_scale, 0.5f);
  EXPECT_EQ(c.beta1, 0.75f);
  EXPECT_EQ(c.one_minus_beta1, 0.25f);
  EXPECT_EQ(c.beta2, 0.9375f);
  EXPECT_EQ(c.one_minus_beta2, 0.0625f);
  EXPECT_EQ(c.eps, 1e-8f);
  EXPECT_EQ(c.rsqrt_bias2, 4);                           // 1/sqrt(1/16)
  EXPECT_EQ(c.step_size, static_cast<float>(1e-3 * 4));  // lr/(1/4)
  EXPECT_EQ(c.decay, static_cast<float>(1e-3 * 0.1));
  EXPECT_TRUE(c.decoupled_decay);
}

TEST(AdamCoefficients, RoundOnceFromFp64) {
  const AdamCoefficients c = adam_coefficients({}, 1, 1);
  EXPECT_EQ(c.one_minus_beta1, 0.1f);
  EXPECT_NE(c.one_minus_beta1, 1 - 0.9f);  // the result in fp32
  EXPECT_EQ(c.one_minus_beta2, 0.001f);
  EXPECT_NE(c.one_minus_beta2, 1 - 0.999f);
}

TEST(AdamCoefficients, BiasCorrectionsAgreeWithLongDouble) {
  for (const std::uint64_t t : {1u, 2u, 3u, 7u, 100u, 9999u, 1000000u}) {
    const AdamCoefficients c = adam_coefficients({}, t, 1);
    const long double bias1 = 1 - std::pow(static_cast<long double>(0.9), static_cast<long double>(t));
    const long double bias2 = 1 - std::pow(static_cast<long double>(0.999), static_cast<long double>(t));
    EXPECT_LE(ulps_between(c.step_size, static_cast<float>(1e-3L / bias1)), 1) << t;
    EXPECT_LE(ulps_between(c.rsqrt_bias2, static_cast<float>(1 / std::sqrt(bias2))), 1) << t;
  }
  EXPECT_EQ(adam_coefficients({}, 1'000'000'000'000, 1).step_size, 1e-3f);
}

TEST(AdamCoefficients, L2DecayIsNotScaledByTheRate) {
  EXPECT_EQ(adam_coefficients({.lr = 1e-3, .weight_decay = 0.1, .decoupled_decay = false}, 5, 1).decay, 0.1f);
}

TEST(AdamCoefficients, NothingIsClampedUnlessAsked) {
  EXPECT_EQ(adam_coefficients({}, 1, 1).max_value, std::numeric_limits<float>::infinity());
  EXPECT_EQ(adam_coefficients({.max_value = 0.1}, 1, 0.5).max_value, 0.1f);
  EXPECT_EQ(adam_coefficients({.max_value = 1e-60}, 1, 1).max_value, 0) << "every gradient is clamped to 0";
}

TEST(AdamCoefficients, UpdateZeroIsAContractViolation) { EXPECT_THROW(adam_coefficients({}, 0, 1), ContractViolation); }

}  // namespace
}  // namespace castor

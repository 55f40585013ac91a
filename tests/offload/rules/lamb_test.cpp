// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "adam_place.h"
#include "bounded_adam.h"
#include "fused.h"
#include "naive_formats.h"

namespace castor {
namespace {

using testing::AdamData;
using testing::bits_of;
using testing::expect_within;
using testing::kAllTypes;
using testing::kSquare;
using testing::kX;

class Lamb : public testing::LambPlace {};
INSTANTIATE_TEST_SUITE_P(On, Lamb, testing::all_places(), testing::place_name);

/// Coefficients with exact products: c = ½, b1 = ½, b2 = ¾, r2 = 2, s = 2, wd = ¼, lr = 4.
LambCoefficients lamb_powers() {
  AdamCoefficients adam{};
  adam.grad_scale = 0.5f;
  adam.beta1 = adam.one_minus_beta1 = 0.5f;
  adam.beta2 = 0.75f, adam.one_minus_beta2 = 0.25f;
  adam.rsqrt_bias2 = 2, adam.step_size = 2;
  adam.decay = 0.25f, adam.decoupled_decay = true;
  return {adam, 4};
}

TEST_P(Lamb, StepByHand) {
  // g = 4·½ = 2; m = ½·6 + ½·2 = 4; v = ¾·4 + ¼·4 = 4; d = 2·2 = 4; r = 2·(4/4) + ¼·8 = 4; p = 8 − 4·4 = −8.
  const AdamData data = updated(lamb_powers(), 8, 6, 4, 4);
  EXPECT_EQ(data.exp_avg[0], 4);
  EXPECT_EQ(data.exp_avg_sq[0], 4);
  EXPECT_EQ(data.master[0], -8);
}

TEST_P(Lamb, GoesFurtherByTheRatioThatItFinds) {
  const Buffer ratio = upload(std::vector<float>{0.25f});
  LambCoefficients c = lamb_powers();
  c.trust = reinterpret_cast<const float*>(ratio.data());
  // r = 4 as above; p = 8 − 4·¼·4 = 4, and the moments are as they were.
  const AdamData data = updated(c, 8, 6, 4, 4);
  EXPECT_EQ(data.exp_avg[0], 4);
  EXPECT_EQ(data.master[0], 4);
}

TEST_P(Lamb, DecayIsPartOfTheDirectionAndNotOfTheGradient) {
  LambCoefficients c = lamb_powers();
  c.adam.decay = 0.5f;  // r = 2 + ½·8 = 6; p = 8 − 4·6 = −16
  const AdamData data = updated(c, 8, 6, 4, 4);
  EXPECT_EQ(data.exp_avg[0], 4);
  EXPECT_EQ(data.master[0], -16);
}

TEST_P(Lamb, MultipliesAndAddsApart) {
  const Buffer ratio = upload(std::vector<float>{kX});
  LambCoefficients c = lamb_powers();
  c.adam.step_size = 0, c.adam.decay = 1, c.lr = kX;
  // wd·p = p: the step is (lr·1)·p.
  EXPECT_EQ(updated(c, kX, 0, 1, 0).master[0], kX - kSquare);
  // (lr·λ)·p = kSquare · 1.
  c.trust = reinterpret_cast<const float*>(ratio.data());
  EXPECT_EQ(updated(c, 1, 0, 1, 0).master[0], 1 - kSquare);
  // r = s·(m/d) + wd·p = −kSquare + kX·kX, with m/d = ½·2kSquare/(2·√¼).
  c = lamb_powers();
  c.adam.step_size = -1, c.adam.decay = kX, c.adam.beta2 = 0.25f;
  EXPECT_EQ(updated(c, kX, 2 * kSquare, 1, 0).master[0], kX);
}

TEST_P(Lamb, StoresOneNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  const AdamData data = updated(lamb_powers(), -infinity, 0, 0, infinity);
  EXPECT_EQ(bits_of(data.master[0]), 0x7fc00000u);
  EXPECT_EQ(data.exp_avg[0], infinity);
}

TEST_P(Lamb, GivesTheBitsOfTheFormulasForAllTypesAndHardValues) {
  std::mt19937_64 random(7);
  const Buffer ratio = upload(std::vector<float>{0.3f});
  const float same_ratio = 0.3f;
  for (const DType grad : kAllTypes)
    for (const DType weight : kAllTypes) {
      SCOPED_TRACE(::testing::Message() << name(grad) << " " << name(weight));
      LambCoefficients c = lamb_coefficients({0.3, 0.9, 0.99, 1e-8, 0.1}, 3, 0.37 / 1024);
      AdamData wanted = testing::random_data(random, 4099, grad, weight);
      c.trust = reinterpret_cast<const float*>(ratio.data());
      const AdamData got = updated(c, wanted), got_3 = updated(c, wanted, 3);
      c.trust = &same_ratio;
      testing::straight_line_update(c, wanted);
      testing::expect_same_bits(got, wanted);
      testing::expect_same_bits(got_3, wanted);
    }
}

TEST_P(Lamb, GivesTheBitsOfTheFormulasHoweverStatesAreStored) {
  std::mt19937_64 random(8);
  for (const bool split : {true, false})
    for (const MomentFormat moments : {MomentFormat::f32, MomentFormat::mixed, MomentFormat::bf16}) {
      SCOPED_TRACE(::testing::Message() << "split " << split << ", moments " << static_cast<int>(moments));
      LambCoefficients c = lamb_coefficients({0.3, 0.9, 0.99, 1e-8, 0.1}, 2, 0.37 / 1024);
      c.adam.rounding_key = 77;
      AdamData wanted = testing::random_data(random, 4099, DType::bf16, DType::bf16);
      testing::make_exact(wanted, moments);
      const testing::PackedAdam got = updated(c, testing::PackedAdam(wanted, split, moments));
      testing::straight_line_update(c, wanted, moments);
      testing::expect_same_bits(got.unpacked(), wanted);
    }
}

TEST_P(Lamb, StaysWithinTheRunningErrorBoundOfFp64) {
  for (const std::uint64_t t : {1u, 1000u}) {
    const LambOptions options{.lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.01};
    std::mt19937_64 random(t);
    const AdamData before = testing::plausible_data(random, 20000);
    const AdamData after = updated(lamb_coefficients(options, t, 1.0 / 3), before);
    const auto* grad = reinterpret_cast<const float*>(before.grad.data());
    for (std::uint64_t i = 0; i < before.n(); ++i) {
      const auto wanted = testing::bounded_lamb(options, t, 1.0 / 3,
                                                {before.master[i], before.exp_avg[i], before.exp_avg_sq[i], grad[i]});
      const testing::Bounded master = testing::exact(before.master[i]) - testing::once(options.lr) * wanted.direction;
      expect_within(after.master[i], master, "master", i);
      expect_within(after.exp_avg[i], wanted.exp_avg, "exp_avg", i);
      expect_within(after.exp_avg_sq[i], wanted.exp_avg_sq, "exp_avg_sq", i);
      // The bound must be tight: one rounding of the master, and some thirty of the subtrahend.
      ASSERT_LE(master.error, testing::kUnit * (2 * std::fabs(before.master[i]) +
                                                30 * options.lr * (1 + std::fabs(wanted.direction.value))));
    }
  }
}

TEST(LambCoefficientsOf, RoundOnceFromFp64) {
  const LambCoefficients c =
      lamb_coefficients({.lr = 0.1, .beta1 = 0.5, .beta2 = 0.75, .eps = 1e-6, .weight_decay = 0.3}, 2, 1.0 / 3);
  EXPECT_EQ(c.lr, 0.1f);
  EXPECT_EQ(c.adam.grad_scale, 1.0f / 3);
  EXPECT_EQ(c.adam.step_size, static_cast<float>(1 / 0.75));                 // 1/(1 − ½²)
  EXPECT_EQ(c.adam.rsqrt_bias2, static_cast<float>(1 / std::sqrt(0.4375)));  // 1/sqrt(1 − ¾²)
  EXPECT_EQ(c.adam.decay, 0.3f);
  EXPECT_EQ(c.adam.eps, 1e-6f);
  EXPECT_EQ(c.adam.max_value, std::numeric_limits<float>::infinity());
  EXPECT_EQ(c.trust, nullptr);
  EXPECT_THROW(lamb_coefficients({}, 0, 1), ContractViolation);
}

}  // namespace
}  // namespace castor

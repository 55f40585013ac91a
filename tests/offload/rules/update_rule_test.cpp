// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/update_rule.h>

#include <gtest/gtest.h>

#include <random>

#include "adam_data.h"

namespace castor {
namespace {

TEST(UpdateRule, AdamsCoefficientsHaveTheRoundingKeyOfTheUpdate) {
  const AdamOptions options{.lr = 0.5, .beta1 = 0.75};
  const auto c = std::get<AdamCoefficients>(update_coefficients(options, {3, RegisteredId{2}, 9}, 0.25));
  EXPECT_EQ(c.step_size, adam_coefficients(options, 3, 0.25).step_size);
  EXPECT_EQ(c.rounding_key, rounding_key(9, RegisteredId{2}, 3));
}

TEST(UpdateRule, SgdKeepsOneMoment) {
  EXPECT_TRUE(keeps_exp_avg_sq(AdamOptions{}));
  EXPECT_FALSE(keeps_exp_avg_sq(SgdOptions{}));
}

TEST(UpdateRule, LambKeepsTwoMomentsAndFindsItsRatio) {
  const LambOptions lamb{.lr = 0.5, .beta1 = 0.75};
  const float ratio = 3;
  const auto c = std::get<LambCoefficients>(update_coefficients(lamb, {3, RegisteredId{2}, 9, &ratio}, 0.25));
  EXPECT_TRUE(keeps_exp_avg_sq(lamb));
  EXPECT_TRUE(measures_direction(lamb));
  EXPECT_FALSE(measures_direction(AdamOptions{}));
  EXPECT_FALSE(measures_direction(SgdOptions{.trust_coefficient = 1}));
  EXPECT_EQ(c.trust, &ratio);
  EXPECT_EQ(c.lr, 0.5f);
  EXPECT_EQ(c.adam.grad_scale, 0.25f);
  EXPECT_EQ(c.adam.rounding_key, rounding_key(9, RegisteredId{2}, 3));
  // ‖p‖/‖r‖: 3/4 for squares of 9 and 16, whatever factor the gradient has.
  EXPECT_EQ(trust_ratio(trust_terms(lamb, 0.25).value(), 9, 16), 0.75f);
}

TEST(UpdateRule, LarsHasTrustTermsAndFindsItsRatio) {
  const SgdOptions lars{.weight_decay = 0.25, .trust_coefficient = 0.5, .eps = 0.125};
  const auto terms = trust_terms(lars, 2);
  ASSERT_TRUE(terms);
  EXPECT_EQ(terms->coefficient, 0.5);
  EXPECT_EQ(terms->grad_scale, 2);
  EXPECT_EQ(terms->weight_decay, 0.25);
  EXPECT_EQ(terms->eps, 0.125);
  const float ratio = 3;
  EXPECT_EQ(std::get<SgdCoefficients>(update_coefficients(lars, {1, RegisteredId{0}, 0, &ratio}, 1)).trust, &ratio);
  const auto plain = update_coefficients(SgdOptions{}, {1, RegisteredId{0}, 0, &ratio}, 1);
  EXPECT_EQ(std::get<SgdCoefficients>(plain).trust, nullptr);
  EXPECT_FALSE(trust_terms(SgdOptions{}, 1));
  EXPECT_FALSE(trust_terms(AdamOptions{}, 1));
}

TEST(UpdateRule, EachRuleHasItsKernel) {
  std::mt19937_64 random(3);
  const testing::AdamData before = testing::random_data(random, 100, DType::f32, DType::bf16);
  const auto stream = make_cpu_device()->wrap_compute_stream(nullptr);
  for (const UpdateOptions& options : {UpdateOptions(AdamOptions{}), UpdateOptions(SgdOptions{.momentum = 0.5}),
                                       UpdateOptions(LambOptions{.weight_decay = 0.5})}) {
    const UpdateCoefficients c = update_coefficients(options, {}, 1);
    testing::AdamData got = before, wanted = before;
    UpdateKernels::make_host().update(*stream, c, got.arrays()).value();
    testing::straight_line_update(c, wanted, MomentFormat::f32);
    testing::expect_same_bits(got, wanted);
  }
}

}  // namespace
}  // namespace castor

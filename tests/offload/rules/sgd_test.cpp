// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "adam_place.h"
#include "bounded.h"
#include "fused.h"
#include "naive_formats.h"

namespace castor {
namespace {

using testing::AdamData;
using testing::bits_of;
using testing::Bounded;
using testing::exact;
using testing::expect_within;
using testing::kAllTypes;
using testing::kSquare;
using testing::kUnit;
using testing::kX;
using testing::once;

class Sgd : public testing::SgdPlace {};
INSTANTIATE_TEST_SUITE_P(On, Sgd, testing::all_places(), testing::place_name);

/// Coefficients that are powers of two: c = ½, wd = ¼, μ = ½, lr = 2.
constexpr SgdCoefficients kPowers{0.5f, 0.25f, 0.5f, 2, false};

TEST_P(Sgd, StepByHand) {
  // g' = 4·½ + ¼·8 = 4; b = ½·6 + 4 = 7; p = 8 − 2·7 = −6.
  const AdamData data = updated(kPowers, 8, 6, 0, 4);
  EXPECT_EQ(data.exp_avg[0], 7);
  EXPECT_EQ(data.master[0], -6);
}

TEST_P(Sgd, NesterovLooksAheadAlongTheNewMomentum) {
  SgdCoefficients c = kPowers;
  c.nesterov = true;
  // g' = 4 and b = 7 as above; d = 4 + ½·7 = 7.5; p = 8 − 2·7.5 = −7.
  const AdamData data = updated(c, 8, 6, 0, 4);
  EXPECT_EQ(data.exp_avg[0], 7);
  EXPECT_EQ(data.master[0], -7);
}

TEST_P(Sgd, MultipliesGradientAndDecayByTheTrustRatioThatItFinds) {
  const Buffer ratio = upload(std::vector<float>{0.5f});
  SgdCoefficients c = kPowers;
  c.trust = reinterpret_cast<const float*>(ratio.data());
  // g' = ½·(4·½ + ¼·8) = 2; b = ½·6 + 2 = 5; p = 8 − 2·5 = −2.
  const AdamData data = updated(c, 8, 6, 0, 4);
  EXPECT_EQ(data.exp_avg[0], 5);
  EXPECT_EQ(data.master[0], -2);
}

TEST_P(Sgd, TheFirstMomentumIsTheGradient) {
  EXPECT_EQ(updated(kPowers, 8, 0, 0, 4).exp_avg[0], 4);
  EXPECT_EQ(updated(kPowers, 8, 0, 0, 4).master[0], 0);
}

TEST_P(Sgd, ClampsBeforeTheDecayEntersTheGradient) {
  SgdCoefficients c = kPowers;
  c.max_value = 1;
  EXPECT_EQ(updated(c, 8, 0, 0, 4).exp_avg[0], 3);   // min(4·½, 1) + ¼·8
  EXPECT_EQ(updated(c, 8, 0, 0, -4).exp_avg[0], 1);  // −1 + 2
  EXPECT_EQ(bits_of(updated(c, 0, 0, 0, testing::float_of(0xffc12345)).exp_avg[0]), 0x7fc00000u);
}

TEST_P(Sgd, MultipliesAndAddsApart) {
  EXPECT_EQ(updated({kX, 1, 0, 0, false}, -kSquare, 0, 0, kX).exp_avg[0], 0);     // g·c fused
  EXPECT_EQ(updated({1, kX, 0, 0, false}, kX, 0, 0, -kSquare).exp_avg[0], 0);     // wd·p
  EXPECT_EQ(updated({1, 0, kX, 0, false}, 0, kX, 0, -kSquare).exp_avg[0], 0);     // μ·b
  EXPECT_EQ(updated({1, 0, 0, kX, false}, kSquare, 0, 0, kX).master[0], 0);       // lr·d
  EXPECT_EQ(updated({1, 0, -kX, 1, true}, 0, 0, 0, kX).master[0], kSquare - kX);  // μ·b ahead, with b = kX
}

TEST_P(Sgd, StoresOneNanKeepsInfinitiesAndSubnormals) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(bits_of(updated({1, 0, 1, 1, false}, 0, infinity, 0, -infinity).exp_avg[0]), 0x7fc00000u);
  EXPECT_EQ(updated({1, 0, 1, 1, false}, 0, 0, 0, infinity).master[0], -infinity);
  EXPECT_EQ(bits_of(updated({1, 0, 0.5f, 0, false}, 0x1p-135f, 0x1p-130f, 0, 0).exp_avg[0]), bits_of(0x1p-131f));
  EXPECT_EQ(bits_of(updated({1, 0, 0.5f, 0, false}, 0x1p-135f, 0x1p-130f, 0, 0).master[0]), bits_of(0x1p-135f));
}

TEST_P(Sgd, GivesTheBitsOfTheFormulasForAllTypesAndHardValues) {
  std::mt19937_64 random(7);
  for (const bool nesterov : {true, false})
    for (const DType grad : kAllTypes)
      for (const DType weight : kAllTypes)
        for (const double max_value : {0.0, 1e-4}) {
          SCOPED_TRACE(::testing::Message()
                       << name(grad) << " " << name(weight) << " nesterov " << nesterov << " max_value " << max_value);
          const SgdCoefficients c = sgd_coefficients({0.3, 0.9, 0.1, nesterov, max_value}, 0.37 / 1024);
          AdamData wanted = testing::random_data(random, 4099, grad, weight);
          const AdamData got = updated(c, wanted), got_3 = updated(c, wanted, 3);
          testing::straight_line_update(c, wanted);
          testing::expect_same_bits(got, wanted);
          testing::expect_same_bits(got_3, wanted);
        }
}

TEST_P(Sgd, GivesTheBitsOfTheFormulasHoweverStatesAreStored) {
  std::mt19937_64 random(8);
  for (const bool split : {true, false})
    for (const MomentFormat moments : {MomentFormat::f32, MomentFormat::mixed, MomentFormat::bf16}) {
      SCOPED_TRACE(::testing::Message() << "split " << split << ", moments " << static_cast<int>(moments));
      const SgdCoefficients c = sgd_coefficients({0.3, 0.9, 0.1, true, 0}, 0.37 / 1024);
      AdamData wanted = testing::random_data(random, 4099, DType::bf16, DType::bf16);
      testing::make_exact(wanted, moments);
      const testing::PackedAdam got = updated(c, testing::PackedAdam(wanted, split, moments));
      testing::straight_line_update(c, wanted, moments);
      testing::expect_same_bits(got.unpacked(), wanted);
    }
}

struct BoundedSgd {
  Bounded master, momentum;
};

/// torch.optim.SGD in fp64 over coefficients that were rounded once.
BoundedSgd bounded_update(const SgdOptions& o, double scale, double p0, double b0, double g0) {
  const Bounded p = exact(p0), g = exact(g0) * once(scale) + once(o.weight_decay) * p;
  const Bounded b = once(o.momentum) * exact(b0) + g;
  const Bounded d = o.nesterov ? g + once(o.momentum) * b : b;
  return {p - once(o.lr) * d, b};
}

TEST_P(Sgd, StaysWithinTheRunningErrorBoundOfFp64) {
  for (const bool nesterov : {false, true}) {
    const SgdOptions options{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = nesterov};
    std::mt19937_64 random(nesterov);
    const AdamData before = testing::plausible_data(random, 20000);
    const AdamData after = updated(sgd_coefficients(options, 1.0 / 3), before);
    const auto* grad = reinterpret_cast<const float*>(before.grad.data());
    for (std::uint64_t i = 0; i < before.n(); ++i) {
      const auto wanted = bounded_update(options, 1.0 / 3, before.master[i], before.exp_avg[i], grad[i]);
      expect_within(after.master[i], wanted.master, "master", i);
      expect_within(after.exp_avg[i], wanted.momentum, "momentum", i);
      // The bound must be tight: one rounding of the master, and some ten of the subtrahend, whose terms are below
      // 0.01.
      ASSERT_LE(wanted.master.error, kUnit * (2 * std::fabs(before.master[i]) + 10 * options.lr * 0.01));
    }
  }
}

TEST(SgdCoefficientsOf, RoundOnceFromFp64) {
  const SgdCoefficients c = sgd_coefficients({.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4}, 1.0 / 3);
  EXPECT_EQ(c.grad_scale, 1.0f / 3);
  EXPECT_EQ(c.decay, 1e-4f);
  EXPECT_EQ(c.momentum, 0.9f);
  EXPECT_EQ(c.lr, 0.1f);
  EXPECT_FALSE(c.nesterov);
  EXPECT_EQ(c.max_value, std::numeric_limits<float>::infinity());
  EXPECT_EQ(sgd_coefficients({.nesterov = true, .max_value = 0.5}, 1).max_value, 0.5f);
}

}  // namespace
}  // namespace castor

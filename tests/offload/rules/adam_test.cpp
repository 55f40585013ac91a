// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "adam_place.h"
#include "flushing_caller.h"
#include "fused.h"
#include "naive_formats.h"

namespace castor {
namespace {

using testing::AdamData;
using testing::bits_of;

class Adam : public testing::AdamPlace {};
INSTANTIATE_TEST_SUITE_P(On, Adam, testing::all_places(), testing::place_name);

using testing::kAllTypes;
using testing::kSquare;
using testing::kX;

/// Coefficients that change nothing; each case sets those that it tests.
AdamCoefficients neutral() { return {1, 1, 0, 1, 0, 1, 1, 0, 0, true}; }

void check_against_straight_line(std::mt19937_64& random, const AdamOptions& options, std::uint64_t t, DType grad,
                                 DType weight,
                                 const std::function<AdamData(const AdamCoefficients&, AdamData)>& updated) {
  SCOPED_TRACE(::testing::Message() << "t " << t << ", gradient " << name(grad) << ", weight " << name(weight)
                                    << ", decoupled " << options.decoupled_decay << ", max_value "
                                    << options.max_value);
  const AdamCoefficients coefficients = adam_coefficients(options, t, 0.37 / 1024);
  AdamData wanted = testing::random_data(random, 4099, grad, weight);
  const AdamData got = updated(coefficients, wanted);
  testing::straight_line_update(coefficients, wanted);
  testing::expect_same_bits(got, wanted);
}

TEST_P(Adam, GivesTheBitsOfTheFormulasForAllTypesAndHardValues) {
  constexpr std::uint64_t kSeed = 7;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  for (const bool decoupled : {true, false})
    for (const std::uint64_t t : {1u, 2u, 10u, 1000u, 1000000u})
      for (const DType grad : kAllTypes)
        for (const DType weight : kAllTypes)
          for (const double max_value : {0.0, 1e-4})
            check_against_straight_line(
                random, {3e-4, 0.9, 0.95, 1e-8, 0.1, decoupled, max_value}, t, grad, weight,
                [this](const AdamCoefficients& c, AdamData data) { return updated(c, std::move(data)); });
}

TEST_P(Adam, GivesTheSameBitsWhateverTheAlignmentAndLength) {
  std::mt19937_64 random(8);
  const AdamCoefficients coefficients = adam_coefficients({}, 3, 1);
  for (const std::uint64_t n : {1u, 2u, 3u, 7u, 31u, 255u, 256u, 257u, 1025u}) {
    SCOPED_TRACE(n);
    AdamData wanted = testing::random_data(random, n, DType::bf16, DType::bf16);
    const AdamData got_1 = updated(coefficients, wanted, 1), got_3 = updated(coefficients, wanted, 3);
    testing::straight_line_update(coefficients, wanted);
    testing::expect_same_bits(got_1, wanted);
    testing::expect_same_bits(got_3, wanted);
  }
}

TEST_P(Adam, UpdatesNothingButItsElements) {
  std::mt19937_64 random(9);
  AdamData data = testing::random_data(random, 10, DType::f32, DType::f32);
  const auto before = data.master;
  AdamData first_four = data;
  const Buffer master = upload(data.master), exp_avg = upload(data.exp_avg), exp_avg_sq = upload(data.exp_avg_sq),
               grad = upload(data.grad), weight = upload(data.weight);
  const auto floats = [](const Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); };
  UpdateArrays arrays{floats(master), floats(exp_avg), floats(exp_avg_sq), grad.data(),
                    weight.data(),  DType::f32,      DType::f32,         4};
  const auto kernel = make_adam(device()).value();
  kernel->update(stream(), adam_coefficients({}, 1, 1), arrays).value();
  arrays.n = 0;
  kernel->update(stream(), adam_coefficients({}, 1, 1), arrays).value();
  download(master, data.master);
  testing::straight_line_update(adam_coefficients({}, 1, 1), first_four);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(bits_of(data.master[i]), bits_of(i < 4 ? first_four.master[i] : before[i])) << i;
}

TEST_P(Adam, FirstStepByHand) {
  // All powers of two, so that every step is exact: g' = 4·½ = 2; m = ½·0 + ½·2 = 1; v = ½·4 + (½·2)·2 = 4; d = 2·2 + 0
  // = 4; p = 8 − ¼·8 − 2·(1/4) = 5.5.
  const AdamData data = updated({0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0, 2, 2, 0.25f, true}, 8, 0, 4, 4);
  EXPECT_EQ(data.exp_avg[0], 1);
  EXPECT_EQ(data.exp_avg_sq[0], 4);
  EXPECT_EQ(data.master[0], 5.5f);
}

TEST_P(Adam, L2EntersTheGradientAndNotTheMaster) {
  // g' = 4·½ + ¼·8 = 4; m = ½·0 + ½·4 = 2; v = ½·16 + (½·4)·4 = 16; d = 4·1 + 0; p = 8 − 2·(2/4) = 7.
  const AdamData data = updated({0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0, 1, 2, 0.25f, false}, 8, 0, 16, 4);
  EXPECT_EQ(data.exp_avg[0], 2);
  EXPECT_EQ(data.exp_avg_sq[0], 16);
  EXPECT_EQ(data.master[0], 7);
}

/// `coefficients` with gradients clamped to [−limit, limit].
AdamCoefficients clamping(AdamCoefficients coefficients, float limit) {
  coefficients.max_value = limit;
  return coefficients;
}

TEST_P(Adam, ClampsTheUnscaledGradient) {
  const AdamCoefficients c = clamping({0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0, 2, 2, 0.25f, true}, 1);
  // g' = min(4·½, 1) = 1; m = ½·1; v = ½·7 + (½·1)·1 = 4; d = 2·2; p = 8 − ¼·8 − 2·(½/4) = 5.75.
  const AdamData above = updated(c, 8, 0, 7, 4);
  EXPECT_EQ(above.exp_avg[0], 0.5f);
  EXPECT_EQ(above.exp_avg_sq[0], 4);
  EXPECT_EQ(above.master[0], 5.75f);
  EXPECT_EQ(updated(c, 8, 0, 7, -4).master[0], 6.25f);
  EXPECT_EQ(updated(c, 8, 0, 7, 1.5f).exp_avg[0], 0.375f);  // 1.5·½ is within
}

TEST_P(Adam, ClampsBeforeL2EntersTheGradient) {
  // g' = min(4·½, 1) + ¼·8 = 3; m = ½·3; v = ½·23 + (½·3)·3 = 16; d = 4·1; p = 8 − 2·(1.5/4) = 7.25.
  const AdamData data = updated(clamping({0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0, 1, 2, 0.25f, false}, 1), 8, 0, 23, 4);
  EXPECT_EQ(data.exp_avg[0], 1.5f);
  EXPECT_EQ(data.exp_avg_sq[0], 16);
  EXPECT_EQ(data.master[0], 7.25f);
}

TEST_P(Adam, ClampsInfinitiesButNoNanAndKeepsTheSignOfZero) {
  AdamCoefficients c = clamping(neutral(), 2);
  c.beta1 = 0, c.one_minus_beta1 = 1;
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(updated(c, 0, 0, 1, infinity).exp_avg[0], 2);
  EXPECT_EQ(updated(c, 0, 0, 1, -infinity).exp_avg[0], -2);
  EXPECT_EQ(bits_of(updated(c, 0, 0, 1, testing::float_of(0xffc12345)).exp_avg[0]), 0x7fc00000u);
  EXPECT_EQ(bits_of(updated(c, 0, -0.0f, 1, -0.0f).exp_avg[0]), bits_of(-0.0f));
}

TEST_P(Adam, MultipliesAndAddsApartInTheMoments) {
  AdamCoefficients c = neutral();
  c.beta1 = kX, c.one_minus_beta1 = -1;
  EXPECT_EQ(updated(c, 0, kX, 1, kSquare).exp_avg[0], 0);  // b1·m fused
  c.beta1 = -1, c.one_minus_beta1 = kX;
  EXPECT_EQ(updated(c, 0, kSquare, 1, kX).exp_avg[0], 0);  // (1−b1)·g' fused
  c = neutral();
  c.beta2 = kX, c.one_minus_beta2 = -kSquare;
  EXPECT_EQ(updated(c, 0, 0, kX, 1).exp_avg_sq[0], 0);  // b2·v fused
  c.beta2 = -1, c.one_minus_beta2 = 1;
  EXPECT_EQ(updated(c, 0, 0, kSquare, kX).exp_avg_sq[0], 0);  // (…)·g' fused
}

TEST_P(Adam, MultipliesAndAddsApartInTheMaster) {
  AdamCoefficients c = neutral();
  c.decay = kX;
  EXPECT_EQ(updated(c, kX, 0, 1, 0).master[0],
            kX - kSquare);  // decay: 1 + 2^-12 − (1 + 2^-11) = −2^-12, fused it would be −2^-12 − 2^-24
  c = neutral();
  c.step_size = kX, c.eps = 0;
  EXPECT_EQ(updated(c, kSquare, kX, 1, 0).master[0], 0);  // p − s·(m/1)
  c.decoupled_decay = false;
  c.step_size = 0, c.decay = 1, c.beta1 = 0, c.one_minus_beta1 = 1, c.grad_scale = kX;
  EXPECT_EQ(updated(c, -kSquare, 0, 1, kX).exp_avg[0], 0);  // g·c + 1·p, the first product fused
  c.grad_scale = 1, c.decay = kX;
  EXPECT_EQ(updated(c, kX, 0, 1, -kSquare).exp_avg[0], 0);  // 1·g + wd·p, the second
}

TEST_P(Adam, MultipliesAndAddsApartInTheDenominator) {
  // sqrt(v) = y = 1 + 2^-11 exactly; y·r2 = 1 + 2^-11 + 2^-14 + 2^-25 loses its last term, and eps takes the rest away:
  // m/0 is infinite.
  constexpr float kY = 1 + 0x1p-11f;
  AdamCoefficients c = neutral();
  c.rsqrt_bias2 = 1 + 0x1p-14f, c.eps = -(1 + 0x1p-11f + 0x1p-14f), c.step_size = 1;
  EXPECT_EQ(updated(c, 0, 1, kY * kY, 0).master[0], -std::numeric_limits<float>::infinity());
}

TEST_P(Adam, StoresOneNanAndKeepsInfinities) {
  AdamCoefficients c = neutral();
  c.beta1 = 0.5f, c.one_minus_beta1 = 0.5f, c.step_size = 1;
  const float infinity = std::numeric_limits<float>::infinity();
  const AdamData nan = updated(c, 1, testing::float_of(0xffc12345), 1, 0);
  EXPECT_EQ(bits_of(nan.exp_avg[0]), 0x7fc00000u);
  EXPECT_EQ(bits_of(nan.master[0]), 0x7fc00000u);
  EXPECT_EQ(bits_of(updated(c, 1, infinity, 1, -infinity).exp_avg[0]),
            0x7fc00000u);                                              // made by the processor: inf − inf
  EXPECT_EQ(bits_of(updated(c, 1, 0, -1, 0).master[0]), 0x7fc00000u);  // made by the processor: sqrt(−1)
  EXPECT_EQ(updated(c, 1, infinity, 1, 0).exp_avg[0], infinity);
  EXPECT_EQ(updated(c, 1, infinity, 1, 0).master[0], -infinity);
}

void expect_subnormals_kept(const AdamData& data) {
  EXPECT_EQ(bits_of(data.exp_avg[0]), bits_of(0x1p-131f));
  EXPECT_EQ(bits_of(data.exp_avg_sq[0]), bits_of(0x1p-141f));
  EXPECT_EQ(bits_of(data.master[0]), bits_of(0x1p-135f));
}

constexpr AdamCoefficients kHalving{1, 0.5f, 0.5f, 0.5f, 0.5f, 0, 1, 0, 0, true};

TEST_P(Adam, KeepsSubnormals) {
  expect_subnormals_kept(updated(kHalving, 0x1p-135f, 0x1p-130f, 0x1p-140f, 0));
  EXPECT_EQ(bits_of(updated(kHalving, 0, 0, 1, 0x1p-133f).exp_avg[0]), bits_of(0x1p-134f));
}

TEST_P(Adam, KeepsSubnormalsWhereTheCallerFlushesThem) {
  AdamData data(0, DType::f32, DType::f32);
  AdamCoefficients c{};
  {
    const testing::FlushingCaller caller;
    ASSERT_TRUE(caller.flushes());
    data = updated(kHalving, 0x1p-135f, 0x1p-130f, 0x1p-140f, 0);
    c = adam_coefficients({.eps = 0x1p-140}, 1, 0x1p-130);
    EXPECT_TRUE(caller.still_set());
  }
  expect_subnormals_kept(data);
  EXPECT_EQ(bits_of(c.eps), bits_of(0x1p-140f));
  EXPECT_EQ(bits_of(c.grad_scale), bits_of(0x1p-130f));
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/direction_norm.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <castor/rules/trust_ratio.h>

#include "adam_place.h"
#include "bounded_adam.h"

namespace castor {
namespace {

using testing::AdamData;

/// The elements at which a tensor is cut into parts.
using Cuts = std::vector<std::uint64_t>;

class DirectionNorm : public testing::KernelPlace {
 protected:
  /// The ratio of a tensor that is measured in parts which end at `cuts` and at its end.
  float ratio(const LambCoefficients& c, const testing::PackedAdam& data, Cuts cuts = {}) {
    const Buffer master = upload(data.master), exp_avg = upload(data.exp_avg), exp_avg_sq = upload(data.exp_avg_sq),
                 grad = upload(data.grad), weight = upload(data.weight);
    testing::PackedAdam copy = data;
    UpdateArrays arrays = copy.arrays();
    if (data.split_master)
      arrays.master_low = reinterpret_cast<std::uint16_t*>(master.data());
    else
      arrays.master = reinterpret_cast<float*>(master.data());
    arrays.exp_avg = exp_avg.data(), arrays.exp_avg_sq = exp_avg_sq.data();
    arrays.grad = grad.data(), arrays.weight = weight.data();
    const auto ratios = TrustRatios::make(device(), 2).value();
    cuts.push_back(data.n);
    std::uint64_t first = 0;
    for (const std::uint64_t end : cuts) {
      const MeasuredPart part = {arrays.part(first, end - first), first, data.n};
      ratios->measure(stream(), 1, {.coefficient = 1}, c, part).value();
      first = end;
    }
    std::vector<float> found(1);
    stream().copy(found.data(), ratios->of(1), sizeof(float));
    stream().synchronize().value();
    return found[0];
  }

  float ratio(const LambCoefficients& c, const AdamData& data, Cuts cuts = {}) {
    return ratio(c, testing::PackedAdam(data, /*split_master=*/false, MomentFormat::f32), std::move(cuts));
  }
};
INSTANTIATE_TEST_SUITE_P(On, DirectionNorm, testing::all_places(), testing::place_name);

LambCoefficients usual(std::uint64_t t = 3) {
  return lamb_coefficients({.lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.01}, t, 1.0 / 3);
}

/// The formulas, and the order of grad_norm.h, both written again.
float naive_ratio(const LambCoefficients& c, const AdamData& data) {
  return testing::naive_trust({.coefficient = 1}, data.master, testing::straight_line_direction(c, data));
}

TEST_P(DirectionNorm, OfMastersAndDirectionByHand) {
  // Moments of 0 and no gradient: r = wd·p alone, so that the ratio is 1/wd.
  AdamData data(2, DType::f32, DType::f32);
  data.master = {3, 4};
  EXPECT_EQ(ratio(lamb_coefficients({.weight_decay = 0.25}, 1, 1), data), 4);
  // A first gradient of 2 everywhere and no eps: m̂/√v̂ = 1, ‖r‖ = √2·(1 ± a few roundings).
  const float twos[] = {2, 2};
  std::memcpy(data.grad.data(), twos, sizeof twos);
  EXPECT_NEAR(ratio(lamb_coefficients({.eps = 0}, 1, 1), data), 5 / std::sqrt(2.0), 5e-6);
}

TEST_P(DirectionNorm, RatioIsOneWhereANormIsZeroOrNan) {
  AdamData data(2, DType::f32, DType::f32);
  data.exp_avg = {1, 1}, data.exp_avg_sq = {1, 1};
  EXPECT_EQ(ratio(usual(), data), 1) << "weights of 0";
  data.master = {3, 4};
  EXPECT_NE(ratio(usual(), data), 1);
  data.master[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(ratio(usual(), data), 1);
  data.master = {3, 4}, data.exp_avg = {0, 0};
  EXPECT_EQ(ratio(lamb_coefficients({}, 1, 1), data), 1) << "a direction of 0";
}

TEST_P(DirectionNorm, HasTheBitsOfTheFormulasForAllTypes) {
  std::mt19937_64 random(5);
  for (const std::uint64_t n : {1u, 255u, 4099u, 65536u, 70001u}) {
    AdamData data = testing::plausible_data(random, n);
    EXPECT_EQ(ratio(usual(), data), naive_ratio(usual(), data)) << n;
  }
  for (const DType grad : testing::kAllTypes)
    for (const DType weight : testing::kAllTypes) {
      AdamData data = testing::random_data(random, 300, grad, weight);
      for (float& master : data.master) master = std::isfinite(master) ? master : 1;
      for (float& moment : data.exp_avg_sq) moment = std::isfinite(moment) ? moment : 1;
      for (float& moment : data.exp_avg) moment = std::isfinite(moment) ? moment : 1;
      std::fill(data.grad.begin(), data.grad.end(), std::uint8_t{0x3b});
      EXPECT_EQ(ratio(usual(), data), naive_ratio(usual(), data)) << name(grad) << " " << name(weight);
    }
}

/// Cuts within a block and at its end, three parts of one block, and one part of many blocks.
TEST_P(DirectionNorm, IsTheSameHoweverATensorIsCut) {
  std::mt19937_64 random(6);
  const AdamData data = testing::plausible_data(random, 3 * kNormBlock + 1000);
  const float wanted = naive_ratio(usual(), data);
  for (const Cuts& cuts : {Cuts{}, Cuts{256}, Cuts{kNormBlock}, Cuts{512, 1024, 2048}, Cuts{kNormBlock + 256},
                           Cuts{256, 2 * kNormBlock + 512}, Cuts{3 * kNormBlock, 3 * kNormBlock + 768},
                           Cuts{kNormBlock / 2, kNormBlock, kNormBlock + 256, 2 * kNormBlock - 256}})
    EXPECT_EQ(ratio(usual(), data, cuts), wanted) << ::testing::PrintToString(cuts);
}

TEST_P(DirectionNorm, IsTheSameHoweverStatesAreStored) {
  std::mt19937_64 random(7);
  for (const MomentFormat moments : {MomentFormat::f32, MomentFormat::mixed, MomentFormat::bf16}) {
    AdamData data = testing::plausible_data(random, 5000);
    data.weight_dtype = DType::bf16;
    data.weight.resize(2 * data.n());
    testing::make_exact(data, moments);
    const float wanted = naive_ratio(usual(), data);
    for (const bool split : {true, false})
      EXPECT_EQ(ratio(usual(), testing::PackedAdam(data, split, moments), {1024}), wanted) << split;
  }
}

/// Vectors r whose difference is e have norms that differ by ‖e‖ at most; fp64 bounds e beside every element of r.
TEST_P(DirectionNorm, RatioStaysWithinTheErrorBoundOfFp64) {
  const LambOptions options{.lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.01};
  for (const std::uint64_t t : {1u, 1000u}) {
    std::mt19937_64 random(t);
    const AdamData data = testing::plausible_data(random, 80'000);
    const auto* grad = reinterpret_cast<const float*>(data.grad.data());
    long double p = 0, r = 0, e = 0;
    for (std::uint64_t i = 0; i < data.n(); ++i) {
      const auto wanted =
          testing::bounded_lamb(options, t, 1.0 / 3, {data.master[i], data.exp_avg[i], data.exp_avg_sq[i], grad[i]});
      p += static_cast<long double>(data.master[i]) * data.master[i];
      r += static_cast<long double>(wanted.direction.value) * wanted.direction.value;
      e += static_cast<long double>(wanted.direction.error) * wanted.direction.error;
    }
    p = std::sqrt(p), r = std::sqrt(r), e = std::sqrt(e);
    const long double wanted = p / r, off = std::abs(ratio(lamb_coefficients(options, t, 1.0 / 3), data) / wanted - 1);
    EXPECT_LE(off, e / (r - e) + 0x1p-24L + 0x1p-39L);
    EXPECT_LE(e / r, 40 * testing::kUnit) << "the bound must have teeth";
  }
}

TEST_P(DirectionNorm, PartsOfTornRowsAreRefused) {
  const AdamData data(600, DType::f32, DType::f32);
  EXPECT_THROW(ratio(usual(), data, {100}), ContractViolation);
}

}  // namespace
}  // namespace castor

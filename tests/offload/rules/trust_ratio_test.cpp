// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/trust_ratio.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "adam_data.h"
#include "adam_place.h"

namespace castor {
namespace {

class Trust : public testing::KernelPlace {
 protected:
  /// The ratio of tensor 1 of 3, read from the address that its update uses.
  float ratio(const TrustTerms& terms, const std::vector<float>& weights, const std::vector<float>& gradient) {
    const auto ratios = TrustRatios::make(device(), 3).value();
    const Buffer weight = upload(weights), grad = upload(gradient);
    ratios->measure(stream(), 1, terms, {weight.data(), DType::f32, grad.data(), DType::f32, weights.size()}).value();
    std::vector<float> found(1);
    stream().copy(found.data(), ratios->of(1), sizeof(float));
    stream().synchronize().value();
    return found[0];
  }
};
INSTANTIATE_TEST_SUITE_P(On, Trust, testing::all_places(), testing::place_name);

TEST_P(Trust, IsThatOfTheNorms) {
  // ‖w‖ = 5, ‖g‖ = 10: 0.5·5/(0.1·10 + 0.2·5 + 0.5) = 1, and half of that with half the coefficient.
  EXPECT_EQ(ratio({1, 0.1, 0.2, 0.5}, {3, 4}, {6, 8}), 2);
  EXPECT_EQ(ratio({0.5, 0.1, 0.2, 0.5}, {3, 4}, {6, 8}), 1);
}

TEST_P(Trust, IsOneWhereANormIsZeroOrNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(ratio({0.5, 1, 0, 0}, {0, 0}, {6, 8}), 1);
  EXPECT_EQ(ratio({0.5, 1, 0, 0}, {3, 4}, {0, 0}), 1);
  EXPECT_EQ(ratio({0.5, 1, 0, 0}, {3, 4}, {nan, 0}), 1);
  EXPECT_EQ(ratio({0.5, 1, 0, 0}, {nan, 4}, {1, 0}), 1);
}

TEST_P(Trust, HasTheBitsOfTheFormula) {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  for (const std::size_t n : {1u, 255u, 1000u, 65536u}) {
    std::vector<float> weights(n), gradient(n);
    for (std::size_t i = 0; i < n; ++i) weights[i] = normal(random), gradient[i] = 1e-3f * normal(random);
    const TrustTerms terms = {1e-3, 1.0 / 3, 1e-4, 1e-8};
    EXPECT_EQ(ratio(terms, weights, gradient), testing::naive_trust(terms, weights, gradient)) << n;
  }
}

/// Norms are within 2^-40 of those in long double, and the ratio is within a rounding to fp32 of theirs.
TEST(TrustRatio, IsThatOfLongDouble) {
  std::mt19937_64 random(6);
  std::normal_distribution<float> normal;
  std::vector<float> weights(50'000), gradient(50'000);
  long double w = 0, g = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = normal(random), gradient[i] = 1e-3f * normal(random);
    w += static_cast<long double>(weights[i]) * weights[i], g += static_cast<long double>(gradient[i]) * gradient[i];
  }
  w = std::sqrt(w), g = std::sqrt(g);
  const long double wanted = 1e-3L * w / (0.25L * g + 1e-4L * w + 1e-8L);
  const float found = testing::naive_trust({1e-3, 0.25, 1e-4, 1e-8}, weights, gradient);
  EXPECT_NEAR(found / static_cast<double>(wanted), 1, 0x1p-24 + 0x1p-39);
  EXPECT_EQ(found, trust_ratio({1e-3, 0.25, 1e-4, 1e-8}, testing::naive_sum_of_squares(weights),
                               testing::naive_sum_of_squares(gradient)));
}

}  // namespace
}  // namespace castor

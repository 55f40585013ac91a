// SPDX-License-Identifier: Apache-2.0
// States that are stored in fewer bytes: split masters, and moments in bf16.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "adam_place.h"
#include "naive_formats.h"

namespace castor {
namespace {

using testing::AdamData;
using testing::bits_of;
using testing::float_of;
using testing::PackedAdam;

class AdamFormats : public testing::AdamPlace {};
INSTANTIATE_TEST_SUITE_P(On, AdamFormats, testing::all_places(), testing::place_name);

constexpr MomentFormat kAllMoments[] = {MomentFormat::f32, MomentFormat::mixed, MomentFormat::bf16};

TEST_P(AdamFormats, GiveTheBitsOfTheFormulas) {
  std::mt19937_64 random(21);
  for (const std::uint64_t t : {1u, 1000u})
    for (const bool decoupled : {true, false})
      for (const DType grad : {DType::bf16, DType::f16, DType::f32})
        for (const MomentFormat moments : kAllMoments)
          for (const bool split : {true, false}) {
            SCOPED_TRACE(::testing::Message() << "t " << t << ", gradient " << name(grad) << ", moments "
                                              << static_cast<int>(moments) << ", split " << split);
            AdamCoefficients c =
                adam_coefficients({3e-4, 0.9, 0.95, 1e-8, 0.1, decoupled, split ? 1e-4 : 0}, t, 0.37 / 1024);
            c.rounding_key = rounding_key(9, RegisteredId{1}, t);
            AdamData wanted = testing::random_data(random, 2051, grad, DType::bf16);
            testing::make_exact(wanted, moments);
            const PackedAdam got = updated(c, PackedAdam(wanted, split, moments));
            testing::straight_line_update(c, wanted, moments);
            testing::expect_same_bits(got.unpacked(), wanted);
          }
}

TEST_P(AdamFormats, SplitBesideOtherWeightsThanBf16IsRefused) {
  const AdamData data(4, DType::f32, DType::f16);
  EXPECT_THROW(updated(adam_coefficients({}, 1, 1), PackedAdam(data, true, MomentFormat::f32)), ContractViolation);
}

TEST(SplitMasters, AreRestoredAndRoundedAsUnsplitOnes) {
  std::vector<float> masters;
  for (const float value : testing::hard_values())
    if (!std::isnan(value)) masters.push_back(value);
  masters.push_back(float_of(0x7fc00000));
  for (std::uint32_t low = 0; low < 65536; ++low)
    for (const std::uint32_t high : {0x0000u, 0x0001u, 0x3f81u, 0x3f82u, 0x7f7fu, 0x8000u, 0xbf82u, 0xff7fu})
      masters.push_back(float_of(high << 16 | low));
  std::vector<std::uint16_t> weights(masters.size()), low_bits(masters.size());
  std::vector<float> restored(masters.size());
  split_masters(masters.data(), weights.data(), low_bits.data(), masters.size());
  join_masters(weights.data(), low_bits.data(), restored.data(), masters.size());
  for (std::size_t i = 0; i < masters.size(); ++i) {
    ASSERT_EQ(bits_of(restored[i]), bits_of(masters[i]));
    ASSERT_EQ(weights[i], testing::naive_bf16(masters[i])) << masters[i];
  }
}

/// exp_avg_sq of `n` elements with the value `v` at first, after `n_updates` with gradients of 0.
std::vector<float> decayed(float v, double beta2, std::uint64_t n, std::uint64_t n_updates) {
  AdamData data(n, DType::bf16, DType::bf16);
  data.exp_avg_sq.assign(n, v);
  PackedAdam packed(data, true, MomentFormat::bf16);
  const auto stream = make_cpu_device()->wrap_compute_stream(nullptr);
  for (std::uint64_t t = 1; t <= n_updates; ++t) {
    AdamCoefficients c = adam_coefficients({.beta2 = beta2}, t, 1);
    c.rounding_key = rounding_key(0, RegisteredId{0}, t);
    make_host_adam()->update(*stream, c, packed.arrays()).value();
  }
  return packed.unpacked().exp_avg_sq;
}

double mean(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// From 1 with beta2 = 0.999 the exact result of one update is r = 0.999, between 255/256 (probability 1 − q) and 1 (q).
// Rounding to nearest would give 1 every time. The bound is five deviations of a mean of n draws.
TEST(RandomRounding, GivesTheExactValueOnAverage) {
  constexpr std::uint64_t kN = 1 << 20;
  const double exact = static_cast<double>(0.999f), below = 255.0 / 256, q = (exact - below) * 256;
  const auto values = decayed(1, 0.999, kN, 1);
  for (const float value : values) ASSERT_TRUE(value == 1 || value == static_cast<float>(below)) << value;
  EXPECT_NEAR(mean(values), exact, 5 * std::sqrt(q * (1 - q) / kN) / 256);
}

// A product of 1000 factors, each rounded: the mean is exact, and each step adds a variance of at most (v/128)²/4.
TEST(RandomRounding, LetsSmallMomentsDecay) {
  constexpr std::uint64_t kN = 1 << 14, kUpdates = 1000;
  const double exact = std::pow(static_cast<double>(0.999f), kUpdates);
  EXPECT_NEAR(mean(decayed(1, 0.999, kN, kUpdates)), exact, 5 * std::sqrt(kUpdates / 4.0 / kN) / 128);
}

TEST(RandomRounding, HasAKeyOfItsOwnForEachSeedTensorAndUpdate) {
  std::set<std::uint32_t> keys;
  std::size_t n = 0;
  for (const std::uint64_t seed : {0ull, 1ull, 1ull << 32})
    for (const RegisteredId tensor : ids<RegisteredId>(30))
      for (std::uint64_t t = 1; t <= 30; ++t, ++n) keys.insert(rounding_key(seed, tensor, t));
  EXPECT_EQ(keys.size(), n);  // a random set has two equal keys once in a thousand times; this one has none
}

}  // namespace
}  // namespace castor

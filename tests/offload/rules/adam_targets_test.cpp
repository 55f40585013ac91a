// SPDX-License-Identifier: Apache-2.0
// The host's Adam with every kind of vectors that this processor has.
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <castor/rules/adam.h>

#include "adam_data.h"
#include "only_target.h"

namespace castor {
namespace {

using testing::AdamData;

using testing::kAllTypes;

/// Elements of each case; suite soak asks for more.
std::uint64_t n_elements() {
  const char* asked = std::getenv("CASTOR_N_ELEMENTS");
  return asked ? std::strtoull(asked, nullptr, 10) : 70'001;  // enough to be written past the caches
}

class AdamTargets : public ::testing::TestWithParam<std::tuple<DType, DType, bool, double>> {};

TEST_P(AdamTargets, GiveTheBitsOfTheFormulas) {
  const auto [grad, weight, decoupled, max_value] = GetParam();
  std::mt19937_64 random(11);
  const AdamCoefficients coefficients =
      adam_coefficients({3e-4, 0.9, 0.95, 1e-8, 0.1, decoupled, max_value}, 7, 0.37 / 1024);
  const AdamData before = testing::random_data(random, n_elements(), grad, weight);
  AdamData wanted = before;
  testing::straight_line_update(coefficients, wanted);
  const auto stream = make_cpu_device()->wrap_compute_stream(nullptr);
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    const testing::OnlyTarget only(target);
    AdamData got = before;
    make_host_adam()->update(*stream, coefficients, got.arrays()).value();
    testing::expect_same_bits(got, wanted);
  }
}

INSTANTIATE_TEST_SUITE_P(All, AdamTargets,
                         ::testing::Combine(::testing::ValuesIn(kAllTypes), ::testing::ValuesIn(kAllTypes),
                                            ::testing::Bool(), ::testing::Values(0.0, 1e-4)),
                         [](const auto& info) {
                           return std::string(name(std::get<0>(info.param))) + "_" + name(std::get<1>(info.param)) +
                                  (std::get<2>(info.param) ? "_decoupled" : "_l2") +
                                  (std::get<3>(info.param) > 0 ? "_clamped" : "");
                         });

struct StoredAs {
  bool split_master;
  MomentFormat moments;
};
constexpr StoredAs kStoredAs[] = {{true, MomentFormat::f32},
                                  {true, MomentFormat::mixed},
                                  {true, MomentFormat::bf16},
                                  {false, MomentFormat::mixed},
                                  {false, MomentFormat::bf16}};

/// With every target, whole and in two parts that begin within a vector.
void check_stored(const StoredAs& as, DType weight, double max_value, std::uint64_t n) {
  SCOPED_TRACE(::testing::Message() << n << " elements, split " << as.split_master << ", moments "
                                    << static_cast<int>(as.moments) << ", weight " << name(weight) << ", at most "
                                    << max_value);
  std::mt19937_64 random(13);
  AdamCoefficients coefficients = adam_coefficients({3e-4, 0.9, 0.95, 1e-8, 0.1, true, max_value}, 7, 0.37 / 1024);
  coefficients.rounding_key = rounding_key(5, RegisteredId{3}, 7);
  AdamData wanted = testing::random_data(random, n, DType::bf16, weight);
  testing::make_exact(wanted, as.moments);
  const testing::PackedAdam before(wanted, as.split_master, as.moments);
  testing::straight_line_update(coefficients, wanted, as.moments);
  const auto stream = make_cpu_device()->wrap_compute_stream(nullptr);
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets())
    for (const std::uint64_t cut : {std::uint64_t{0}, n / 3}) {
      SCOPED_TRACE(::testing::Message() << hwy::TargetName(target) << ", cut at " << cut);
      const testing::OnlyTarget only(target);
      testing::PackedAdam got = before;
      make_host_adam()->update(*stream, coefficients, got.arrays().part(0, cut)).value();
      make_host_adam()->update(*stream, coefficients, got.arrays().part(cut, n - cut)).value();
      testing::expect_same_bits(got.unpacked(), wanted);
    }
}

TEST(AdamTargetsAlone, GiveTheBitsOfTheFormulasHoweverStatesAreStored) {
  for (const std::uint64_t n : {33u, 9'001u})
    for (const StoredAs& as : kStoredAs)
      for (const DType weight : kAllTypes)
        for (const double max_value : {0.0, 1e-4})
          if (!as.split_master || weight == DType::bf16) check_stored(as, weight, max_value, n);
}

/// `n` weights of 16 bits at starts that suit no vector: at a multiple of their size, and at none.
void check_weights_wherever_they_start(std::uint64_t n) {
  SCOPED_TRACE(::testing::Message() << n << " elements");
  std::mt19937_64 random(12);
  const AdamCoefficients coefficients = adam_coefficients({}, 3, 1);
  AdamData wanted = testing::random_data(random, n, DType::bf16, DType::bf16);
  const AdamData before = wanted;
  testing::straight_line_update(coefficients, wanted);
  const auto stream = make_cpu_device()->wrap_compute_stream(nullptr);
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets())
    for (const std::uint64_t offset : {0u, 1u, 7u, 31u}) {
      SCOPED_TRACE(::testing::Message() << hwy::TargetName(target) << ", " << offset << " weights into its memory");
      const testing::OnlyTarget only(target);
      AdamData got = before;
      std::vector<std::uint16_t> weights(n + offset + 1, 0xabcd);
      UpdateArrays arrays = got.arrays();
      arrays.weight = weights.data() + offset;
      make_host_adam()->update(*stream, coefficients, arrays).value();
      EXPECT_TRUE(offset == 0 || weights[offset - 1] == 0xabcd);
      EXPECT_EQ(weights.back(), 0xabcd);
      std::memcpy(got.weight.data(), arrays.weight, 2 * n);
      testing::expect_same_bits(got, wanted);
    }
}

// Fewer elements than a step of the loop, the most that stay in the caches, the fewest that are written past them, and
// many.
TEST(AdamTargetsAlone, WriteWeightsWhereverTheyStart) {
  for (const std::uint64_t n : {31u, 4095u, 4096u, 66'000u}) check_weights_wherever_they_start(n);
}

}  // namespace
}  // namespace castor

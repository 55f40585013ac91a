// SPDX-License-Identifier: Apache-2.0
// The host's SGD with every kind of vectors that this processor has.
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <random>
#include <string>
#include <tuple>

#include <castor/rules/sgd.h>

#include "adam_data.h"
#include "only_target.h"

namespace castor {
namespace {

using testing::kAllTypes;

class SgdTargets : public ::testing::TestWithParam<std::tuple<DType, DType, bool>> {};

/// Whole, and in two parts of which the second begins within a vector. The first part is short enough to stay in the
/// caches; the others are written past them.
TEST_P(SgdTargets, GiveTheBitsOfTheFormulas) {
  const auto [grad, weight, nesterov] = GetParam();
  std::mt19937_64 random(11);
  constexpr std::uint64_t kN = 9'001;
  SgdCoefficients coefficients = sgd_coefficients({0.3, 0.9, 0.1, nesterov, 1e-4}, 0.37 / 1024);
  const float trust = 0.3f;
  if (nesterov) coefficients.trust = &trust;
  testing::AdamData wanted = testing::random_data(random, kN, grad, weight);
  testing::make_exact(wanted, MomentFormat::mixed);
  for (const MomentFormat moments : {MomentFormat::f32, MomentFormat::mixed})
    for (const bool split : {false, true}) {
      if (split && weight != DType::bf16) continue;
      const testing::PackedAdam before(wanted, split, moments);
      testing::AdamData after = wanted;
      testing::straight_line_update(coefficients, after, moments);
      const auto stream = make_cpu_device()->wrap_compute_stream(nullptr);
      for (const std::int64_t target : hwy::SupportedAndGeneratedTargets())
        for (const std::uint64_t cut : {std::uint64_t{0}, kN / 3}) {
          SCOPED_TRACE(::testing::Message() << hwy::TargetName(target) << ", cut at " << cut << ", split " << split);
          const testing::OnlyTarget only(target);
          testing::PackedAdam got = before;
          UpdateArrays arrays = got.arrays();
          arrays.exp_avg_sq = nullptr;
          make_host_sgd()->update(*stream, coefficients, arrays.part(0, cut)).value();
          make_host_sgd()->update(*stream, coefficients, arrays.part(cut, kN - cut)).value();
          testing::expect_same_bits(got.unpacked(), after);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, SgdTargets,
                         ::testing::Combine(::testing::ValuesIn(kAllTypes), ::testing::ValuesIn(kAllTypes),
                                            ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(name(std::get<0>(info.param))) + "_" + name(std::get<1>(info.param)) +
                                  (std::get<2>(info.param) ? "_nesterov" : "");
                         });

}  // namespace
}  // namespace castor

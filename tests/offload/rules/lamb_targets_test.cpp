// SPDX-License-Identifier: Apache-2.0
// The host's LAMB with every kind of vectors that this processor has.
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <tuple>

#include <castor/rules/direction_norm.h>

#include "adam_data.h"
#include "only_target.h"

namespace castor {
namespace {

using testing::AdamData;
using testing::PackedAdam;

class LambTargets : public ::testing::TestWithParam<std::tuple<DType, DType>> {
 protected:
  static constexpr std::uint64_t kN = 9'001;

  static LambCoefficients coefficients() {
    LambCoefficients c = lamb_coefficients({0.3, 0.9, 0.99, 1e-8, 0.1}, 3, 0.37 / 1024);
    c.adam.rounding_key = 5;
    return c;
  }

  /// Calls `f` with each kind of vectors, each format of the states, and the data in that format.
  template <typename F>
  void for_all(F f) {
    const auto [grad, weight] = GetParam();
    std::mt19937_64 random(11);
    AdamData data = testing::random_data(random, kN, grad, weight);
    testing::make_exact(data, MomentFormat::bf16);
    for (const MomentFormat moments : {MomentFormat::f32, MomentFormat::mixed, MomentFormat::bf16})
      for (const bool split : {false, true}) {
        if (split && weight != DType::bf16) continue;
        for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
          SCOPED_TRACE(::testing::Message()
                       << hwy::TargetName(target) << ", split " << split << ", moments " << static_cast<int>(moments));
          const testing::OnlyTarget only(target);
          f(data, PackedAdam(data, split, moments));
        }
      }
  }
};

/// Whole, and in two parts of which the second begins within a vector. The first part is short enough to stay in the
/// caches; the others are written past them.
TEST_P(LambTargets, GiveTheBitsOfTheFormulas) {
  const auto stream = make_cpu_device()->wrap_compute_stream(nullptr);
  const float trust = 0.3f;
  LambCoefficients c = coefficients();
  c.trust = &trust;
  for_all([&](const AdamData& before, const PackedAdam& packed) {
    AdamData wanted = before;
    testing::straight_line_update(c, wanted, packed.moments);
    for (const std::uint64_t cut : {std::uint64_t{0}, kN / 3}) {
      PackedAdam got = packed;
      make_host_lamb()->update(*stream, c, got.arrays().part(0, cut)).value();
      make_host_lamb()->update(*stream, c, got.arrays().part(cut, kN - cut)).value();
      testing::expect_same_bits(got.unpacked(), wanted);
    }
  });
}

/// The sums of masters and direction, and every row of the direction's.
TEST_P(LambTargets, MeasureTheDirectionOfTheFormulas) {
  const LambCoefficients c = coefficients();
  for_all([&](const AdamData& before, const PackedAdam& packed) {
    PackedAdam data = packed;
    DirectionRows rows;
    const DirectionPiece piece = {data.arrays(), /*block=*/0, /*first_row=*/0, /*begins=*/true, /*ends=*/true};
    sum_direction_rows(c, piece, rows);
    const auto [masters, directions] = fold(rows, piece.end_row());
    const auto same = [](double got, double wanted) { return got == wanted || (got != got && wanted != wanted); };
    EXPECT_TRUE(same(masters, testing::naive_sum_of_squares(before.master)));
    const std::vector<float> direction = testing::straight_line_direction(c, before);
    EXPECT_TRUE(same(directions, testing::naive_sum_of_squares(direction)));
    for (std::uint64_t first = 0; first < kN; first += 256) {  // NaNs in some do not hide the others
      const std::vector<float> own(direction.begin() + static_cast<std::ptrdiff_t>(first),
                                   direction.begin() + static_cast<std::ptrdiff_t>(std::min(kN, first + 256)));
      EXPECT_TRUE(same(rows.directions[first / 256], testing::naive_sum_of_squares(own))) << first;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, LambTargets,
                         ::testing::Combine(::testing::ValuesIn(testing::kAllTypes),
                                            ::testing::ValuesIn(testing::kAllTypes)),
                         [](const auto& info) {
                           return std::string(name(std::get<0>(info.param))) + "_" + name(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace castor

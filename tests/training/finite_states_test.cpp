// SPDX-License-Identifier: Apache-2.0
#include <castor/training/finite_states.h>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace castor {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

TEST(FiniteStates, OneWildValueAnywhereIsFound) {
  std::array<float, 67> values{};
  values[3] = std::numeric_limits<float>::max(), values[4] = std::numeric_limits<float>::denorm_min(),
  values[5] = -0.0F;
  EXPECT_TRUE(all_finite(values));
  for (std::size_t i = 0; i < values.size(); ++i)
    for (const float wild : {kInf, -kInf, kNan, std::nanf("7"), -kNan}) {
      auto with = values;
      with[i] = wild;
      EXPECT_FALSE(all_finite(with)) << i;
    }
  EXPECT_TRUE(all_finite({}));
}

TEST(FiniteStates, TheArrayIsNamed) {
  std::array<float, 2> master{}, exp_avg{}, exp_avg_sq{};
  auto state = blank<castor_param_state>();
  state.n = 2, state.master = master.data(), state.exp_avg = exp_avg.data(), state.exp_avg_sq = exp_avg_sq.data();
  EXPECT_EQ(not_finite_in(state), std::nullopt);
  exp_avg_sq[1] = kInf;
  EXPECT_EQ(not_finite_in(state), "exp_avg_sq");
  exp_avg[0] = kNan;
  EXPECT_EQ(not_finite_in(state), "exp_avg");
  state.exp_avg = nullptr, state.exp_avg_sq = nullptr;
  EXPECT_EQ(not_finite_in(state), std::nullopt) << "arrays that are not there";
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "half.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace castor {
namespace {

/// A 16-bit float by its definition: sign, `n_exponent` bits of exponent, the rest fraction.
double by_definition(std::uint16_t bits, int n_exponent) {
  const int n_fraction = 15 - n_exponent, bias = (1 << (n_exponent - 1)) - 1;
  const int exponent = (bits >> n_fraction) & ((1 << n_exponent) - 1), fraction = bits & ((1 << n_fraction) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << n_exponent) - 1)
    return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  const double significand = exponent == 0 ? fraction : fraction + (1 << n_fraction);
  return sign * std::ldexp(significand, std::max(exponent, 1) - bias - n_fraction);
}

struct Format {
  const char* name;
  int n_exponent;
  float (*widen)(std::uint16_t);
  std::uint16_t (*narrow)(float);
};

class Half : public ::testing::TestWithParam<Format> {
 protected:
  std::uint16_t infinity() const {
    return static_cast<std::uint16_t>(((1 << GetParam().n_exponent) - 1) << (15 - GetParam().n_exponent));
  }
  /// The value of pattern `bits` of a positive number; one beyond the largest counts as the next step of the same size.
  double step(std::uint32_t bits) const {
    if (bits < infinity()) return by_definition(static_cast<std::uint16_t>(bits), GetParam().n_exponent);
    return 2 * by_definition(infinity() - 1, GetParam().n_exponent) -
           by_definition(infinity() - 2, GetParam().n_exponent);
  }
};

TEST_P(Half, WidensEveryPatternExactlyAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const double expected = by_definition(pattern, GetParam().n_exponent);
    const float wide = GetParam().widen(pattern);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide)) << std::hex << bits;
      ASSERT_GT(GetParam().narrow(wide), infinity()) << std::hex << bits;
    } else {
      ASSERT_EQ(wide, expected) << std::hex << bits;
      ASSERT_EQ(GetParam().narrow(wide), pattern) << std::hex << bits;
    }
  }
}

TEST_P(Half, RoundsToNearestAndTiesToEven) {
  for (std::uint32_t below = 0; below < infinity(); ++below) {
    const auto middle =
        static_cast<float>((step(below) + step(below + 1)) / 2);  // exact: one more bit than the 16-bit type has
    const auto even = static_cast<std::uint16_t>(below % 2 == 0 ? below : below + 1);
    ASSERT_EQ(GetParam().narrow(middle), even) << std::hex << below;
    ASSERT_EQ(GetParam().narrow(-middle), even | 0x8000) << std::hex << below;
    ASSERT_EQ(GetParam().narrow(std::nextafter(middle, 0.0f)), below) << std::hex << below;
    ASSERT_EQ(GetParam().narrow(std::nextafter(middle, INFINITY)), below + 1) << std::hex << below;
  }
}

TEST_P(Half, BeyondTheLargestIsInfinity) {
  EXPECT_EQ(GetParam().narrow(INFINITY), infinity());
  EXPECT_EQ(GetParam().narrow(-INFINITY), infinity() | 0x8000);
  EXPECT_EQ(GetParam().narrow(std::numeric_limits<float>::max()), infinity());
}

INSTANTIATE_TEST_SUITE_P(Formats, Half,
                         ::testing::Values(Format{"bf16", 8, bf16_to_float, float_to_bf16},
                                           Format{"fp16", 5, f16_to_float, float_to_f16}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace castor

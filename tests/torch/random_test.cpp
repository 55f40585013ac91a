// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/random.h>

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace castor {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The published vectors of Random123 (kat_vectors, philox4x32 10).
TEST(Philox, GivesThePublishedWords) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

std::vector<float> filled(std::size_t n, Init init, RandomKey key, int n_threads = 1) {
  std::vector<float> values(n, -7.0f);
  fill(values, init, key, n_threads);
  return values;
}

TEST(Fill, ConstantsAreConstant) {
  EXPECT_EQ(filled(3, Init::zeros(), {1, 2}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(filled(3, Init::ones(), {1, 2}), (std::vector<float>{1, 1, 1}));
}

TEST(Fill, NormalHasTheMomentsOfItsDistribution) {
  const auto values = filled(1'000'001, Init::normal(0.5), {42, 7});
  double sum = 0, squares = 0, fourths = 0;
  for (const double x : values) sum += x, squares += x * x, fourths += x * x * x * x;
  const double n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 0.5 * 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 0.25, 0.25 * 5 * std::sqrt(2 / n));
  EXPECT_NEAR(fourths / n / 0.0625, 3, 5 * std::sqrt(96 / n));
}

TEST(Fill, UniformStaysWithinItsHalfWidth) {
  const auto values = filled(100'000, Init::uniform(0.25), {42, 7});
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*least, -0.25f);
  EXPECT_LE(*most, 0.25f);
  EXPECT_LT(*least, -0.2499f);
  EXPECT_GT(*most, 0.2499f);
  EXPECT_NEAR(std::accumulate(values.begin(), values.end(), 0.0) / 1e5, 0, 5 * 0.25 / std::sqrt(3e5));
}

TEST(Fill, AnElementDependsOnItsIndexAlone) {
  const auto some = filled(1001, Init::normal(1), {3, 4});
  const auto more = filled(300'001, Init::normal(1), {3, 4});
  EXPECT_TRUE(std::equal(some.begin(), some.end(), more.begin()));
  EXPECT_EQ(more, filled(300'001, Init::normal(1), {3, 4}, 3));
}

TEST(Fill, ARangeHasTheElementsOfTheWhole) {
  const auto all = filled(200'001, Init::uniform(1), {3, 4});
  for (const std::uint64_t first : {0u, 1u, 2u, 4097u, 200'000u}) {
    std::vector<float> some(all.size() - first);
    fill(some, Init::uniform(1), {3, 4}, 3, first);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + static_cast<std::ptrdiff_t>(first))) << first;
  }
}

TEST(Fill, SeedAndStreamBothCount) {
  const auto values = filled(16, Init::normal(1), {3, 4});
  EXPECT_NE(values, filled(16, Init::normal(1), {3, 5}));
  EXPECT_NE(values, filled(16, Init::normal(1), {4, 4}));
  EXPECT_NE(values, filled(16, Init::normal(1), {3 + (std::uint64_t{1} << 32), 4}));
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <castor/offload/adam.h>
#include <castor/offload/grad_norm.h>

#include "flushing_caller.h"
#include "kernel_place.h"
#include "naive_formats.h"

namespace castor {
namespace {

/// The documented order, by indices.
double fold(const std::vector<double>& lanes, std::uint64_t lane, std::uint64_t n_lanes) {
  if (n_lanes == kNormLanes) return lanes[lane];
  return fold(lanes, lane, 2 * n_lanes) + fold(lanes, lane + n_lanes, 2 * n_lanes);
}

double naive_sum(const void* grad, DType dtype, std::uint64_t n) {
  double total = 0;
  for (std::uint64_t block = 0; block * 65536 < n; ++block) {
    std::vector<double> lanes(256);
    for (std::uint64_t lane = 0; lane < 256; ++lane)
      for (std::uint64_t row = 0; row < 256; ++row) {
        const std::uint64_t i = block * 65536 + row * 256 + lane;
        if (i < n) lanes[lane] += std::pow(static_cast<double>(testing::naive_widen(grad, dtype, i)), 2);
      }
    total += fold(lanes, 0, 1);
  }
  return total;
}

class GradNorm : public testing::KernelPlace {
 protected:
  template <typename T>
  double sum(const std::vector<T>& grad, DType dtype, std::uint64_t offset = 0) {
    const Buffer on_device = upload(grad, offset);
    const Buffer result = Buffer::allocate(device().host_memory(), sizeof(double)).value();
    auto* sum = reinterpret_cast<double*>(result.data());
    *sum = -1;
    kernel().sum_of_squares(stream(), on_device.data() + offset * sizeof(T), dtype, grad.size(), sum).value();
    stream().synchronize().value();
    return *sum;
  }
  double sum(const std::vector<float>& grad) { return sum(grad, DType::f32); }

  GradNormKernel& kernel() {
    if (!kernel_) kernel_ = make_grad_norm(device()).value();
    return *kernel_;
  }

 private:
  std::unique_ptr<GradNormKernel> kernel_;
};
INSTANTIATE_TEST_SUITE_P(On, GradNorm, testing::all_places(), testing::place_name);

constexpr std::uint64_t kLengths[] = {0, 1, 2, 255, 256, 257, 511, 512, 65535, 65536, 65537, 3 * 65536 + 17};

/// Magnitudes over 2^-30 … 2^9, so that almost every addition rounds.
std::vector<float> random_floats(std::uint64_t seed, std::uint64_t n) {
  std::mt19937_64 random(seed);
  std::vector<float> values(n);
  for (float& value : values)
    value = std::ldexp(static_cast<float>(random() % 0x1000000) - 0x800000p0f, static_cast<int>(random() % 16) - 29);
  return values;
}

std::vector<std::uint16_t> random_halves(std::uint64_t seed, std::uint64_t n, std::uint16_t infinity) {
  std::mt19937_64 random(seed);
  std::vector<std::uint16_t> bits(n);
  for (auto& element : bits) element = static_cast<std::uint16_t>((random() % infinity) | (random() % 2 << 15));
  return bits;
}

TEST_P(GradNorm, AddsInTheDocumentedOrder) {
  for (const std::uint64_t n : kLengths) {
    SCOPED_TRACE(::testing::Message() << "n and seed " << n);
    const auto f32 = random_floats(n, n);
    EXPECT_EQ(sum(f32), naive_sum(f32.data(), DType::f32, n));
    EXPECT_EQ(sum(f32, DType::f32, 1), naive_sum(f32.data(), DType::f32, n));
    const auto bf16 = random_halves(n, n, 0x7f80);
    EXPECT_EQ(sum(bf16, DType::bf16), naive_sum(bf16.data(), DType::bf16, n));
    const auto f16 = random_halves(n, n, 0x7c00);
    EXPECT_EQ(sum(f16, DType::f16, 3), naive_sum(f16.data(), DType::f16, n));
  }
}

TEST_P(GradNorm, StaysWithinTheBoundOfItsOrder) {
  // All terms are positive, so the relative error is at most (additions on the longest path) · 2^-53: 256 in a lane, 8
  // folds, one per block.
  for (const std::uint64_t n : kLengths) {
    const auto values = random_floats(n + 1, n);
    long double exact = 0;
    for (const float value : values) exact += static_cast<long double>(value) * value;
    const auto depth = static_cast<long double>(256 + 8 + n / kNormBlock + 1);
    EXPECT_LE(std::fabs(sum(values) - exact), 1.001L * depth * 0x1p-53L * exact) << n;
  }
}

TEST_P(GradNorm, KnownSums) {
  EXPECT_EQ(sum({}), 0);
  EXPECT_EQ(sum({3, -4}), 25);
  EXPECT_EQ(sum(std::vector<float>(65537, 1)), 65537);
  EXPECT_EQ(sum(std::vector<float>(3, 0x1p-149f)), 3 * 0x1p-298);  // subnormals count
  EXPECT_EQ(sum({std::numeric_limits<float>::max()}), 0x1.fffffep127 * 0x1.fffffep127);
}

TEST_P(GradNorm, CountsSubnormalsWhereTheCallerFlushesThem) {
  const testing::FlushingCaller caller;
  ASSERT_TRUE(caller.flushes());
  const std::vector<float> grad(3, 0x1p-149f);
  EXPECT_EQ(sum(grad), 3 * 0x1p-298);
  EXPECT_TRUE(caller.still_set());
}

TEST_P(GradNorm, OrderIsThatOfLanesAndNotOfElements) {
  // Lane 0: 2^54 + 1 stays 2^54; lane 1: 1 + 1.5625; together 2^54 + 2.5625, nearest 2^54 + 4. One after the other all
  // three would be lost.
  std::vector<float> values(258);
  values[0] = 0x1p27f;
  values[1] = values[256] = 1;
  values[257] = 1.25f;
  EXPECT_EQ(sum(values), 0x1p54 + 4);
}

TEST_P(GradNorm, BlocksAddUpInOrder) {
  // 2^54 in the first block, 1.5 in each of the next two: each is lost on its own, together they would not be.
  std::vector<float> values(3 * kNormBlock);
  values[5] = 0x1p27f;
  values[kNormBlock + 7] = values[2 * kNormBlock + 9] = std::sqrt(1.5f);
  EXPECT_EQ(sum(values), 0x1p54);
}

TEST_P(GradNorm, WhatIsNotFiniteComesThrough) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values(70000, 1);
  values[69999] = -infinity;
  EXPECT_EQ(sum(values), infinity);
  values[3] = testing::float_of(0xffc12345);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(sum(values)), 0x7ff8000000000000u);
  EXPECT_EQ(sum(std::vector<std::uint16_t>{0x3f80, 0xff80}, DType::bf16), infinity);
  EXPECT_TRUE(std::isnan(sum(std::vector<std::uint16_t>{0x7c01}, DType::f16)));
}

TEST(CombineNorms, ClipsTheUnscaledNorm) {
  const double sums[] = {9, 16};
  const StepScale plain = combine_norms(sums, 2, 0, 1);
  EXPECT_FALSE(plain.skip);
  EXPECT_EQ(plain.grad_norm, 5);
  EXPECT_EQ(plain.grad_scale, 1);
  EXPECT_EQ(combine_norms(sums, 2, 1, 1).grad_scale, 1 / (5 + 1e-6));
  EXPECT_EQ(combine_norms(sums, 2, 6, 1).grad_scale, 1);  // below the limit nothing is clipped
  const StepScale scaled = combine_norms(sums, 2, 1, 4);
  EXPECT_EQ(scaled.grad_norm, 1.25);
  EXPECT_EQ(scaled.grad_scale, 0.25 * (1 / (1.25 + 1e-6)));
  EXPECT_EQ(combine_norms(nullptr, 0, 1, 2).grad_scale, 0.5);
}

TEST(CombineNorms, AddsInRegistrationOrder) {
  // Eight ones after 2^53 are lost one by one (ties to even), before it they are not.
  std::vector<double> sums(9, 1);
  sums[0] = 0x1p53;
  EXPECT_EQ(combine_norms(sums.data(), 9, 0, 1).grad_norm, std::sqrt(0x1p53));
  std::swap(sums[0], sums[8]);
  EXPECT_EQ(combine_norms(sums.data(), 9, 0, 1).grad_norm, std::sqrt(0x1p53 + 8));
  EXPECT_NE(std::sqrt(0x1p53), std::sqrt(0x1p53 + 8));
}

TEST(CombineNorms, SkipsWhatIsNotFinite) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    const double sums[] = {1, bad, 1};
    const StepScale step = combine_norms(sums, 3, 1, 8);
    EXPECT_TRUE(step.skip);
    EXPECT_FALSE(std::isfinite(step.grad_norm));
    EXPECT_EQ(step.grad_scale, 0.125);
    EXPECT_TRUE(combine_norms(sums, 2, 0, 1).skip);
    EXPECT_FALSE(combine_norms(sums, 1, 0, 1).skip);
  }
}

TEST(CombineNorms, ALossScaleThatIsNotPositiveIsAContractViolation) {
  const double sums[] = {1};
  EXPECT_THROW(combine_norms(sums, 1, 0, 0), ContractViolation);
  EXPECT_THROW(combine_norms(sums, 1, 0, std::numeric_limits<double>::quiet_NaN()), ContractViolation);
}

}  // namespace
}  // namespace castor

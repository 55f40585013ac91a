// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <castor/rules/adam.h>
#include <castor/rules/grad_norm.h>

#include "flushing_caller.h"
#include "kernel_place.h"
#include "naive_formats.h"

namespace castor {
namespace {

/// The documented order of the sum, written with indices.
double fold(const std::vector<double>& children, std::uint64_t child, std::uint64_t stride) {
  if (stride == 256) return children[child];
  return fold(children, child, 2 * stride) + fold(children, child + stride, 2 * stride);
}

/// The node over `span` elements from `first` on, a power of 256.
double naive_node(const void* grad, DType dtype, std::uint64_t n, std::uint64_t first, std::uint64_t span) {
  if (first >= n) return 0;
  if (span == 1) return std::pow(static_cast<double>(testing::naive_widen(grad, dtype, first)), 2);
  std::vector<double> children;
  for (std::uint64_t child = 0; child < 256; ++child)
    children.push_back(naive_node(grad, dtype, n, first + child * (span / 256), span / 256));
  return fold(children, 0, 1);
}

double naive_sum(const void* grad, DType dtype, std::uint64_t n) {
  std::uint64_t span = 256;
  while (span < n) span *= 256;
  return naive_node(grad, dtype, n, 0, span);
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
  // All terms are positive, so the relative error is at most (additions on the longest path) · 2^-53: 8 in a row, 8 in
  // a block, 8 in the node above the blocks.
  for (const std::uint64_t n : kLengths) {
    const auto values = random_floats(n + 1, n);
    long double exact = 0;
    for (const float value : values) exact += static_cast<long double>(value) * value;
    const long double depth = 24;
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

TEST_P(GradNorm, ARowFoldsInHalves) {
  // Elements 1, 65 and 129 are added before element 0: 2^54 + 3, nearest 2^54 + 4. Added one after the other, each 1
  // would be lost.
  std::vector<float> values(256);
  values[0] = 0x1p27f;
  values[1] = values[65] = values[129] = 1;
  EXPECT_EQ(sum(values), 0x1p54 + 4);
  // Elements 64 and 128 are added to element 0 one by one, and are lost.
  values[1] = values[65] = values[129] = 0;
  values[64] = values[128] = 1;
  EXPECT_EQ(sum(values), 0x1p54);
}

TEST_P(GradNorm, RowsAndBlocksFoldLikeElements) {
  // The same for elements that begin a row, and for elements that begin a block.
  for (const std::uint64_t apart : {std::uint64_t{256}, std::uint64_t{65536}}) {
    std::vector<float> values(130 * apart);
    values[0] = 0x1p27f;
    values[apart] = values[65 * apart] = values[129 * apart] = 1;
    EXPECT_EQ(sum(values), 0x1p54 + 4) << apart;
    values[apart] = values[65 * apart] = values[129 * apart] = 0;
    values[64 * apart] = values[128 * apart] = 1;
    EXPECT_EQ(sum(values), 0x1p54) << apart;
  }
}

TEST_P(GradNorm, MoreThan256BlocksHaveNodesAboveThem) {
  // 2^54 in block 0, 1.5 in each of blocks 256 and 257: the latter two are added first, in a node of their own.
  std::vector<float> values(257 * std::uint64_t{65536} + 1);
  values[0] = 0x1p27f;
  values[256 * std::uint64_t{65536}] = values[257 * std::uint64_t{65536}] = std::sqrt(1.5f);
  EXPECT_EQ(sum(values), 0x1p54 + 4);
  values[257 * std::uint64_t{65536}] = 0;
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
  // Eight ones that are added after 2^53 are lost one by one (ties to even); added before it they are not.
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

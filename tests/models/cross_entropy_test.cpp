// SPDX-License-Identifier: Apache-2.0
#include "cross_entropy.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace castor {
namespace {

/// [n, classes] values between -4 and 4, the same in every run.
at::Tensor some_logits(std::int64_t n, std::int64_t classes) {
  return (at::sin(at::arange(n * classes, at::kDouble) * 0.7) * 4).view({n, classes});
}

at::Tensor some_targets(std::int64_t n, std::int64_t classes) {
  return (at::arange(n, at::kLong) * 7919).remainder(classes);
}

void expect_close(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  const double worst = (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
  EXPECT_LE(worst, tolerance);
}

void compare_with_fp64(std::int64_t n, std::int64_t classes, at::ScalarType dtype, double tolerance) {
  const at::Tensor logits = some_logits(n, classes).to(dtype).set_requires_grad(true);
  const at::Tensor exact = logits.detach().to(at::kDouble).set_requires_grad(true);
  const at::Tensor target = some_targets(n, classes);
  const at::Tensor loss = cross_entropy(logits, target);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  const at::Tensor expected = at::cross_entropy_loss(exact, target);
  expect_close(loss.detach(), expected.detach(), 1e-6 * expected.item<double>());
  (loss * 3).backward();
  (expected * 3).backward();
  EXPECT_EQ(logits.grad().scalar_type(), dtype);
  expect_close(logits.grad(), exact.grad(), tolerance / static_cast<double>(n));
}

TEST(CrossEntropy, EqualsLibTorchsInFp64) { compare_with_fp64(37, 11, at::kFloat, 1e-6); }

TEST(CrossEntropy, RoundsTheGradientOnce) { compare_with_fp64(37, 11, at::kBFloat16, 3 * std::ldexp(1.0, -8)); }

TEST(CrossEntropy, WorksThroughManySlices) { compare_with_fp64(120, 150'000, at::kFloat, 1e-6); }

TEST(CrossEntropy, ARowWiderThanASliceStillFits) { compare_with_fp64(2, 9'000'000, at::kFloat, 1e-6); }

// All logits are equal, so the loss is the log of the number of classes, computed by hand.
TEST(CrossEntropy, OfEqualLogitsIsTheLogOfTheirNumber) {
  EXPECT_NEAR(cross_entropy(at::full({5, 256}, 3.0f), some_targets(5, 256)).item<double>(), 5.545177444479562, 1e-6);
}

}  // namespace
}  // namespace castor

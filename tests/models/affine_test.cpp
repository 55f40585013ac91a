// SPDX-License-Identifier: Apache-2.0
#include "affine.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>

namespace castor {
namespace {

using Product = std::function<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)>;

/// Values between -1 and 1, the same in every run.
at::Tensor waves(at::IntArrayRef sizes, double frequency) {
  return at::sin(at::arange(c10::multiply_integers(sizes), at::kDouble) * frequency).view(sizes);
}

struct Operands {
  at::Tensor x, weight, bias;
  Operands as(at::ScalarType dtype) const { return {leaf(x, dtype), leaf(weight, dtype), leaf(bias, dtype)}; }

  static at::Tensor leaf(const at::Tensor& tensor, at::ScalarType dtype) {
    return tensor.defined() ? tensor.detach().to(dtype, false, /*copy=*/true).set_requires_grad(true) : tensor;
  }
};

void expect_units(const at::Tensor& a, const at::Tensor& exact, double unit) {
  const at::Tensor error = (a.detach().to(at::kDouble) - exact.detach()).abs();
  EXPECT_LE((error / (exact.detach().abs() + 1)).max().item<double>(), unit);
}

/// Compares with fp64 of the same 16-bit operands: a result is rounded once, so its error is half a unit in the last
/// place, plus that of fp32 sums, which is far smaller.
void compare_with_fp64(const Operands& operands, at::ScalarType dtype, double half_unit, const Product& product) {
  const Operands narrow = operands.as(dtype);
  const Operands exact = narrow.as(at::kDouble);
  const at::Tensor y = product(narrow.x, narrow.weight, narrow.bias);
  const at::Tensor expected = at::linear(exact.x, exact.weight, exact.bias);
  ASSERT_EQ(y.scalar_type(), dtype);
  ASSERT_EQ(y.sizes(), expected.sizes());
  expect_units(y, expected, 1.01 * half_unit);
  const at::Tensor grad = waves(y.sizes(), 0.37).to(dtype);
  y.backward(grad);
  expected.backward(grad.to(at::kDouble));
  expect_units(narrow.x.grad(), exact.x.grad(), 1.01 * half_unit);
  expect_units(narrow.weight.grad(), exact.weight.grad(), 1.01 * half_unit);
  if (narrow.bias.defined()) expect_units(narrow.bias.grad(), exact.bias.grad(), 1.01 * half_unit);
}

void compare_both_dtypes(const Operands& operands) {
  compare_with_fp64(operands, at::kBFloat16, std::ldexp(1.0, -8), widened_affine);
  compare_with_fp64(operands, at::kHalf, std::ldexp(1.0, -11), widened_affine);
}

TEST(Affine, WidenedRoundsEachResultOnce) {
  compare_both_dtypes({waves({37, 19}, 0.7), waves({23, 19}, 1.3), waves({23}, 2.1)});
}

TEST(Affine, WidenedTakesBatchesOfRowsAndNoBias) {
  compare_both_dtypes({waves({3, 5, 19}, 0.7), waves({23, 19}, 1.3), {}});
}

TEST(Affine, WidenedLeavesOutGradientsThatNobodyNeeds) {
  const at::Tensor x = waves({4, 8}, 0.7).to(at::kBFloat16);
  const at::Tensor weight = waves({6, 8}, 1.3).to(at::kBFloat16).set_requires_grad(true);
  widened_affine(x, weight).sum().backward();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_TRUE(weight.grad().defined());
  EXPECT_FALSE(widened_affine(x, weight.detach()).requires_grad());
}

// Tests the path that this CPU takes; oneDNN and LibTorch's own loops may round the bias separately, so two units.
TEST(Affine, IsWithinTwoUnitsOfFp64OnThisCpu) {
  const Operands operands = {waves({37, 19}, 0.7), waves({23, 19}, 1.3), waves({23}, 2.1)};
  const auto product = [](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) { return affine(x, w, b); };
  compare_with_fp64(operands, at::kBFloat16, 4 * std::ldexp(1.0, -8), product);
}

TEST(Affine, OfFp32IsLibTorchsOwn) {
  const Operands operands = Operands{waves({37, 19}, 0.7), waves({23, 19}, 1.3), waves({23}, 2.1)}.as(at::kFloat);
  EXPECT_TRUE(at::equal(affine(operands.x, operands.weight, operands.bias),
                        at::linear(operands.x, operands.weight, operands.bias)));
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>

#include "adam_data.h"

/// Values in fp64 with a bound on the error of fp32 that is computed beside them: running error analysis (Higham,
/// "Accuracy and Stability of Numerical Algorithms", 2nd edition, section 3.3). One fp32 operation on operands that are
/// off by ea and eb is off by the effect of ea and eb on the exact operation, plus u = 2^-24 of its result.
namespace castor::testing {

inline constexpr double kUnit = 0x1p-24;
inline constexpr double kFp64Slack = 1 + 0x1p-40;  // for the rounding of the analysis itself

/// A value in fp64 and a bound on the distance of the fp32 computation. No range errors: the data stay clear of both
/// ends.
struct Bounded {
  double value = 0;
  double error = 0;
};

inline Bounded rounded(double value, double carried) {
  return {value, (carried + kUnit * (std::fabs(value) + carried)) * kFp64Slack};
}
inline Bounded exact(double value) { return {value, 0}; }
inline Bounded once(double value) { return rounded(value, 0); }
inline Bounded operator+(Bounded a, Bounded b) { return rounded(a.value + b.value, a.error + b.error); }
inline Bounded operator-(Bounded a, Bounded b) { return rounded(a.value - b.value, a.error + b.error); }
inline Bounded operator*(Bounded a, Bounded b) {
  return rounded(a.value * b.value, std::fabs(a.value) * b.error + std::fabs(b.value) * a.error + a.error * b.error);
}
inline Bounded operator/(Bounded a, Bounded b) {
  const double quotient = a.value / b.value;
  return rounded(quotient, (a.error + std::fabs(quotient) * b.error) / (std::fabs(b.value) - b.error));
}
inline Bounded square_root(Bounded a) { return rounded(std::sqrt(a.value), a.error / std::sqrt(a.value - a.error)); }

/// Values of a training run: masters about 1, gradients about 1e-3, moments that fit them.
inline AdamData plausible_data(std::mt19937_64& random, std::uint64_t n) {
  std::normal_distribution<float> normal;
  AdamData data(n, DType::f32, DType::f32);
  auto* grad = reinterpret_cast<float*>(data.grad.data());
  for (std::uint64_t i = 0; i < n; ++i) {
    data.master[i] = normal(random);
    data.exp_avg[i] = 1e-3f * normal(random);
    data.exp_avg_sq[i] = 1e-6f * (0.01f + std::fabs(normal(random)));
    grad[i] = 1e-3f * normal(random);
  }
  return data;
}

inline void expect_within(float got, const Bounded& wanted, const char* what, std::uint64_t i) {
  ASSERT_LE(std::fabs(got - wanted.value), wanted.error)
      << what << "[" << i << "] is " << got << ", in fp64 " << wanted.value;
}

}  // namespace castor::testing

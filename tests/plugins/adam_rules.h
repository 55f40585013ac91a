// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/abi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace castor::test {

/// The rules of docs/plugin_abi.md ("Same bits"), which castor/rules/update_arrays.h, adam.h and grad_norm.h document,
/// written down a second time, for the tests alone. Compiled with -ffp-contract=off like everything here.

/// Nearest, ties away from zero: decided by comparing the two neighbours in double, not by adding half.
inline std::uint16_t nearest_bf16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const std::uint32_t below = bits & 0xffff0000u, above = below + 0x10000u;
  float low, high;
  std::memcpy(&low, &below, sizeof low);
  std::memcpy(&high, &above, sizeof high);
  const double to_low = std::abs(double{value} - low), to_high = std::abs(double{high} - value);
  return static_cast<std::uint16_t>((to_low < to_high ? below : above) >> 16);
}

/// The fold of values first + j, first + j + s, first + j + 2s, … of the 256 from `first` on as a tree: halves meet
/// from the widest stride inwards; values that do not exist are 0.
inline double fold(const std::vector<double>& values, std::size_t first, std::size_t j, std::size_t stride) {
  if (stride == 256) return first + j < values.size() ? values[first + j] : 0;
  return fold(values, first, j, 2 * stride) + fold(values, first, j + stride, 2 * stride);
}

/// The nodes over 256 values each, and over 256 of those, until one is left.
inline double sum_of_squares(const std::vector<float>& grad) {
  std::vector<double> level;
  for (const float g : grad) level.push_back(double{g} * double{g});
  while (level.size() > 1) {
    std::vector<double> nodes;
    for (std::size_t first = 0; first < level.size(); first += 256) nodes.push_back(fold(level, first, 0, 1));
    level = std::move(nodes);
  }
  return level.empty() ? 0 : level[0];
}

/// LARS's ratio of a tensor that computes with `weights`.
inline double lars_ratio(const castor_step_args& a, double grad_scale, const std::vector<float>& weights,
                         const std::vector<float>& grad) {
  const double w = std::sqrt(sum_of_squares(weights)), g = std::sqrt(sum_of_squares(grad));
  return w > 0 && g > 0 ? a.trust_coefficient * w / (grad_scale * g + a.weight_decay * w + a.eps) : 1;
}

/// base^exponent by the squares of base, from the lowest bit of the exponent up.
inline double power(double base, std::uint64_t exponent) {
  double result = 1;
  for (int bit = 0; bit < 64; ++bit, base *= base)
    if ((exponent >> bit) & 1) result *= base;
  return result;
}

/// One tensor under Adam, LAMB, SGD or LARS in fp32; the momentum is exp_avg.
struct RuleTensor {
  std::vector<float> master, exp_avg, exp_avg_sq;
  std::uint64_t t = 0;

  explicit RuleTensor(std::vector<float> init)
      : master(std::move(init)), exp_avg(master.size()), exp_avg_sq(master.size()) {}

  /// One update; `ratio` is that of LARS.
  void update(const castor_step_args& a, double grad_scale, const std::vector<float>& grad, double ratio = 1) {
    ++t;
    if (a.optimizer == CASTOR_SGD || a.optimizer == CASTOR_LARS)
      return update_by_sgd(a, static_cast<float>(grad_scale), grad, static_cast<float>(ratio));
    if (a.optimizer == CASTOR_LAMB) return update_by_lamb(a, static_cast<float>(grad_scale), grad);
    const bool adamw = a.optimizer == CASTOR_ADAMW;
    const float c = static_cast<float>(grad_scale);
    const float b1 = static_cast<float>(a.beta1), b2 = static_cast<float>(a.beta2);
    const float rest1 = static_cast<float>(1 - a.beta1), rest2 = static_cast<float>(1 - a.beta2);
    const float r2 = static_cast<float>(1 / std::sqrt(1 - power(a.beta2, t)));
    const float s = static_cast<float>(a.lr / (1 - power(a.beta1, t)));
    const float decay = static_cast<float>(adamw ? a.lr * a.weight_decay : a.weight_decay);
    const float eps = static_cast<float>(a.eps), limit = static_cast<float>(a.max_value);
    for (std::size_t i = 0; i < master.size(); ++i) {
      float g = grad[i] * c;
      if (a.max_value > 0 && std::abs(g) > limit) g = std::copysign(limit, g);
      if (!adamw) g += decay * master[i];
      exp_avg[i] = b1 * exp_avg[i] + rest1 * g;
      exp_avg_sq[i] = b2 * exp_avg_sq[i] + (rest2 * g) * g;
      const float d = std::sqrt(exp_avg_sq[i]) * r2 + eps;
      if (adamw) master[i] -= decay * master[i];
      master[i] -= s * (exp_avg[i] / d);
    }
  }

 private:
  void update_by_lamb(const castor_step_args& a, float c, const std::vector<float>& grad) {
    const float b1 = static_cast<float>(a.beta1), b2 = static_cast<float>(a.beta2);
    const float rest1 = static_cast<float>(1 - a.beta1), rest2 = static_cast<float>(1 - a.beta2);
    const float r2 = static_cast<float>(1 / std::sqrt(1 - power(a.beta2, t)));
    const float s = static_cast<float>(1 / (1 - power(a.beta1, t)));
    const float wd = static_cast<float>(a.weight_decay), eps = static_cast<float>(a.eps);
    std::vector<float> direction(master.size());
    for (std::size_t i = 0; i < master.size(); ++i) {
      const float g = grad[i] * c;
      exp_avg[i] = b1 * exp_avg[i] + rest1 * g;
      exp_avg_sq[i] = b2 * exp_avg_sq[i] + (rest2 * g) * g;
      direction[i] = s * (exp_avg[i] / (std::sqrt(exp_avg_sq[i]) * r2 + eps));
      direction[i] += wd * master[i];
    }
    const double p = std::sqrt(sum_of_squares(master)), r = std::sqrt(sum_of_squares(direction));
    const float rate = static_cast<float>(a.lr) * (p > 0 && r > 0 ? static_cast<float>(p / r) : 1.0f);
    for (std::size_t i = 0; i < master.size(); ++i) master[i] -= rate * direction[i];
  }

  void update_by_sgd(const castor_step_args& a, float c, const std::vector<float>& grad, float ratio) {
    const float mu = static_cast<float>(a.momentum), wd = static_cast<float>(a.weight_decay);
    const float lr = static_cast<float>(a.lr), limit = static_cast<float>(a.max_value);
    for (std::size_t i = 0; i < master.size(); ++i) {
      float g = grad[i] * c;
      if (a.max_value > 0 && std::abs(g) > limit) g = std::copysign(limit, g);
      g += wd * master[i];
      g *= ratio;
      exp_avg[i] = mu * exp_avg[i] + g;
      master[i] -= lr * (a.nesterov ? g + mu * exp_avg[i] : exp_avg[i]);
    }
  }
};

}  // namespace castor::test

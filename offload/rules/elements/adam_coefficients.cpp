// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/adam.h>

#include <cmath>
#include <limits>

#include "host/float_environment.h"
#include "formats.h"

namespace castor {
namespace {

/// base^exponent by repeated squaring. std::pow would do, but its last bit depends on the C library and on whether the
/// processor fuses multiply and add.
double power(double base, std::uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1u) result *= base;
    base *= base;
  }
  return result;
}

}  // namespace

AdamCoefficients adam_coefficients(const AdamOptions& options, std::uint64_t t, double grad_scale) {
  if (t == 0) throw ContractViolation("adam_coefficients: updates are counted from 1, this one is number 0");
  const kernels::DefaultFloatEnvironment environment;
  const auto rounded = [](double value) { return static_cast<float>(value); };
  AdamCoefficients c{};
  c.grad_scale = rounded(grad_scale);
  c.beta1 = rounded(options.beta1);
  c.one_minus_beta1 = rounded(1 - options.beta1);
  c.beta2 = rounded(options.beta2);
  c.one_minus_beta2 = rounded(1 - options.beta2);
  c.eps = rounded(options.eps);
  c.rsqrt_bias2 = rounded(1 / std::sqrt(1 - power(options.beta2, t)));
  c.step_size = rounded(options.lr / (1 - power(options.beta1, t)));
  c.decay = rounded(options.decoupled_decay ? options.lr * options.weight_decay : options.weight_decay);
  c.decoupled_decay = options.decoupled_decay;
  c.max_value = options.max_value > 0 ? rounded(options.max_value) : std::numeric_limits<float>::infinity();
  return c;
}

std::uint32_t rounding_key(std::uint64_t seed, RegisteredId tensor, std::uint64_t t) {
  std::uint32_t key = 0;
  for (const std::uint64_t word : {seed, std::uint64_t{number(tensor)}, t}) {
    key = kernels::mixed(key ^ static_cast<std::uint32_t>(word));
    key = kernels::mixed(key + static_cast<std::uint32_t>(word >> 32) + 1);
  }
  return key;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "naive_formats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace castor::testing {
namespace {

/// The magnitudes of all patterns up to infinity, which has the magnitude of the next finite value.
std::vector<double> magnitudes(double (*value)(std::uint16_t), std::uint16_t infinity, double beyond) {
  std::vector<double> table;
  for (std::uint16_t bits = 0; bits < infinity; ++bits) table.push_back(value(bits));
  table.push_back(beyond);
  return table;
}

/// Index of the entry of `table` nearest to `magnitude`, and whether it was a tie with the entry above.
std::uint16_t nearest(const std::vector<double>& table, double magnitude, bool ties_away) {
  const auto above = std::upper_bound(table.begin(), table.end(), magnitude);
  if (above == table.end()) return static_cast<std::uint16_t>(table.size() - 1);
  const auto high = static_cast<std::uint16_t>(above - table.begin());
  const auto low = static_cast<std::uint16_t>(high - 1);
  const double to_low = magnitude - table[low];
  const double to_high = table[high] - magnitude;
  if (to_low == to_high) return ties_away || low % 2 == 1 ? high : low;
  return to_low < to_high ? low : high;
}

std::uint16_t sign_of(float value) { return std::signbit(value) ? 0x8000 : 0; }

}  // namespace

double naive_value(std::uint16_t bits, int n_fraction_bits, int bias, int top) {
  const int exponent = (bits & 0x7fff) >> n_fraction_bits;
  const int fraction = bits & ((1 << n_fraction_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == top)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - n_fraction_bits);
  return sign * std::ldexp((1 << n_fraction_bits) + fraction, exponent - bias - n_fraction_bits);
}

std::uint16_t naive_bf16(float value) {
  static const auto table = magnitudes(naive_bf16_value, 0x7f80, 0x1p128);
  if (std::isnan(value)) return 0x7fc0;
  return sign_of(value) | nearest(table, std::fabs(value), true);
}

std::uint16_t naive_f16(float value) {
  static const auto table = magnitudes(naive_f16_value, 0x7c00, 65536);
  if (std::isnan(value)) return 0x7e00;
  return sign_of(value) | nearest(table, std::fabs(value), false);
}

float naive_widen(const void* elements, DType dtype, std::uint64_t i) {
  if (dtype == DType::f32) return static_cast<const float*>(elements)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(elements)[i];
  return static_cast<float>(dtype == DType::bf16 ? naive_bf16_value(bits) : naive_f16_value(bits));
}

}  // namespace castor::testing

// SPDX-License-Identifier: Apache-2.0
#include "adam_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "naive_formats.h"

namespace castor::testing {
namespace {

float spread_value(std::mt19937_64& random) {
  const float magnitude =
      std::ldexp(1.0f + static_cast<float>(random() % (1u << 23)) * 0x1p-23f, static_cast<int>(random() % 50) - 40);
  return random() % 2 == 0 ? magnitude : -magnitude;
}

float random_value(std::mt19937_64& random) {
  return random() % 4 == 0 ? hard_values()[random() % hard_values().size()] : spread_value(random);
}

/// Stores `value` as element `i` of `dtype`.
void store(std::vector<std::uint8_t>& bytes, DType dtype, std::uint64_t i, float value) {
  if (dtype == DType::f32) {
    std::memcpy(bytes.data() + 4 * i, &value, 4);
    return;
  }
  const std::uint16_t bits = dtype == DType::bf16 ? naive_bf16(value) : naive_f16(value);
  std::memcpy(bytes.data() + 2 * i, &bits, 2);
}

/// `value`, or the only NaN that is stored.
float stored(float value) { return std::isnan(value) ? float_of(0x7fc00000) : value; }

/// The moments of one element, and m/d.
struct Moments {
  float m, v, ratio;
};

Moments moments_of(const AdamCoefficients& c, const AdamData& data, std::uint64_t i) {
  const volatile float p0 = data.master[i];
  volatile float g = naive_widen(data.grad.data(), data.grad_dtype, i);
  g = g * c.grad_scale;
  if (!std::isnan(g)) g = std::fmax(-c.max_value, std::fmin(g, c.max_value));
  if (!c.decoupled_decay) {
    const volatile float l2 = c.decay * p0;
    g = g + l2;
  }
  const volatile float m_kept = c.beta1 * data.exp_avg[i];
  const volatile float m_new = c.one_minus_beta1 * g;
  const volatile float m = m_kept + m_new;
  const volatile float v_kept = c.beta2 * data.exp_avg_sq[i];
  volatile float v_new = c.one_minus_beta2 * g;
  v_new = v_new * g;
  const volatile float v = v_kept + v_new;
  volatile float d = std::sqrt(static_cast<float>(v));
  d = d * c.rsqrt_bias2;
  d = d + c.eps;
  const volatile float ratio = m / d;
  return {m, v, ratio};
}

void store_element(AdamData& data, std::uint64_t i, float master, const Moments& moments) {
  data.master[i] = stored(master);
  data.exp_avg[i] = stored(moments.m);
  data.exp_avg_sq[i] = stored(moments.v);
  store(data.weight, data.weight_dtype, i, data.master[i]);
}

void update_element(const AdamCoefficients& c, AdamData& data, std::uint64_t i) {
  const Moments moments = moments_of(c, data, i);
  volatile float p = data.master[i];
  if (c.decoupled_decay) {
    const volatile float decayed = c.decay * p;
    p = p - decayed;
  }
  const volatile float step = c.step_size * moments.ratio;
  p = p - step;
  store_element(data, i, p, moments);
}

float direction_of(const AdamCoefficients& c, const Moments& moments, float master) {
  const volatile float adapted = c.step_size * moments.ratio;
  const volatile float decayed = c.decay * master;
  const volatile float direction = adapted + decayed;
  return direction;
}

void update_element(const LambCoefficients& c, AdamData& data, std::uint64_t i) {
  const Moments moments = moments_of(c.adam, data, i);
  const volatile float direction = direction_of(c.adam, moments, data.master[i]);
  volatile float rate = c.lr;
  if (c.trust != nullptr) rate = rate * *c.trust;
  const volatile float step = rate * direction;
  const volatile float p = data.master[i] - step;
  store_element(data, i, p, moments);
}

void update_element(const SgdCoefficients& c, AdamData& data, std::uint64_t i) {
  const volatile float p0 = data.master[i];
  volatile float g = naive_widen(data.grad.data(), data.grad_dtype, i);
  g = g * c.grad_scale;
  if (!std::isnan(g)) g = std::fmax(-c.max_value, std::fmin(g, c.max_value));
  const volatile float l2 = c.decay * p0;
  g = g + l2;
  if (c.trust != nullptr) g = *c.trust * g;
  const volatile float kept = c.momentum * data.exp_avg[i];
  const volatile float b = kept + g;
  volatile float d = b;
  if (c.nesterov) {
    const volatile float ahead = c.momentum * b;
    d = g + ahead;
  }
  d = c.lr * d;
  const volatile float p = p0 - d;
  data.master[i] = stored(p);
  data.exp_avg[i] = stored(b);
  store(data.weight, data.weight_dtype, i, data.master[i]);
}

void expect_same_bytes(const char* array, const void* got, const void* wanted, std::uint64_t n,
                       std::size_t element_bytes) {
  if (n == 0 || std::memcmp(got, wanted, n * element_bytes) == 0) return;
  const auto* got_bytes = static_cast<const std::uint8_t*>(got);
  const auto* wanted_bytes = static_cast<const std::uint8_t*>(wanted);
  std::uint64_t i = 0;
  while (std::memcmp(got_bytes + i * element_bytes, wanted_bytes + i * element_bytes, element_bytes) == 0) ++i;
  std::uint32_t got_bits = 0, wanted_bits = 0;
  std::memcpy(&got_bits, got_bytes + i * element_bytes, element_bytes);
  std::memcpy(&wanted_bits, wanted_bytes + i * element_bytes, element_bytes);
  ADD_FAILURE() << array << "[" << i << "] of " << n << ": bits " << std::hex << got_bits << ", wanted " << wanted_bits;
}

}  // namespace

AdamData::AdamData(std::uint64_t n, DType grad_type, DType weight_type)
    : grad_dtype(grad_type),
      weight_dtype(weight_type),
      master(n),
      exp_avg(n),
      exp_avg_sq(n),
      grad(n * size_bytes(grad_type)),
      weight(n * size_bytes(weight_type)) {}

UpdateArrays AdamData::arrays() {
  return {master.data(), exp_avg.data(), exp_avg_sq.data(), grad.data(), weight.data(), grad_dtype, weight_dtype, n()};
}

const std::vector<float>& hard_values() {
  static const std::vector<float> values = {0.0f,
                                            -0.0f,
                                            0x1p-149f,
                                            -0x1p-149f,
                                            0x1.fffffcp-127f,
                                            -0x1.fffffcp-127f,
                                            0x1p-126f,
                                            0x1p-133f,
                                            1e-30f,
                                            -1e-20f,
                                            1e-8f,
                                            1.0f,
                                            -1.0f,
                                            65504.0f,
                                            65520.0f,
                                            1e10f,
                                            -1.8e19f,
                                            1.9e19f,
                                            1e30f,
                                            float_of(0x7f7fffff),
                                            float_of(0xff7fffff),
                                            float_of(0x7f7f8000),
                                            float_of(0x3f818000),
                                            float_of(0x3f828000),
                                            float_of(0x7f800000),
                                            float_of(0xff800000),
                                            float_of(0x7fc00000),
                                            float_of(0xffc00000),
                                            float_of(0x7f800001),
                                            float_of(0xffc12345)};
  return values;
}

AdamData random_data(std::mt19937_64& random, std::uint64_t n, DType grad_dtype, DType weight_dtype) {
  AdamData data(n, grad_dtype, weight_dtype);
  for (std::uint64_t i = 0; i < n; ++i) {
    data.master[i] = random_value(random);
    data.exp_avg[i] = random_value(random);
    data.exp_avg_sq[i] = random() % 64 == 0 ? random_value(random) : std::fabs(random_value(random));
    store(data.grad, grad_dtype, i, random_value(random));
  }
  return data;
}

void straight_line_update(const AdamCoefficients& c, AdamData& data) {
  for (std::uint64_t i = 0; i < data.n(); ++i) update_element(c, data, i);
}

void straight_line_update(const SgdCoefficients& c, AdamData& data) {
  for (std::uint64_t i = 0; i < data.n(); ++i) update_element(c, data, i);
}

void straight_line_update(const LambCoefficients& c, AdamData& data) {
  for (std::uint64_t i = 0; i < data.n(); ++i) update_element(c, data, i);
}

std::vector<float> straight_line_direction(const LambCoefficients& c, const AdamData& data) {
  std::vector<float> direction(data.n());
  for (std::uint64_t i = 0; i < data.n(); ++i)
    direction[i] = direction_of(c.adam, moments_of(c.adam, data, i), data.master[i]);
  return direction;
}

namespace {

/// By the definition in formats.h: the hash named there, of element and key. `value` is rounded up where its fraction
/// and the hash's upper half add up to 2^16.
float rounded_at_random(float value, std::uint32_t key, std::uint32_t element) {
  if (!std::isfinite(value)) return value;
  std::uint64_t hash = element ^ key;
  hash = ((hash ^ (hash / 65536)) * 0x7feb352d) % 0x100000000;
  hash = ((hash ^ (hash / 32768)) * 0x846ca68b) % 0x100000000;
  hash = hash ^ (hash / 65536);
  const std::uint32_t fraction = bits_of(value) % 65536, below = bits_of(value) - fraction;
  return float_of(fraction + hash / 65536 >= 65536 ? below + 65536 : below);
}

float nearest_bf16(float value) { return float_of(std::uint32_t{naive_bf16(value)} << 16); }

std::vector<std::uint8_t> packed(const std::vector<float>& values, DType dtype) {
  std::vector<std::uint8_t> bytes(values.size() * size_bytes(dtype));
  for (std::uint64_t i = 0; i < values.size(); ++i) store(bytes, dtype, i, values[i]);
  return bytes;
}

}  // namespace

PackedAdam::PackedAdam(const AdamData& data, bool split, MomentFormat of_moments)
    : grad_dtype(data.grad_dtype),
      weight_dtype(data.weight_dtype),
      split_master(split),
      moments(of_moments),
      n(data.n()),
      master(packed(data.master, DType::f32)),
      exp_avg(packed(data.exp_avg, exp_avg_dtype(moments))),
      exp_avg_sq(packed(data.exp_avg_sq, exp_avg_sq_dtype(moments))),
      grad(data.grad),
      weight(data.weight) {
  if (!split) return;
  master.resize(2 * n);
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::uint32_t low = bits_of(data.master[i]) % 65536;
    master[2 * i] = static_cast<std::uint8_t>(low % 256);
    master[2 * i + 1] = static_cast<std::uint8_t>(low / 256);
    store(weight, DType::bf16, i, data.master[i]);
  }
}

UpdateArrays PackedAdam::arrays() {
  UpdateArrays arrays{nullptr,       exp_avg.data(), exp_avg_sq.data(), grad.data(),
                    weight.data(), grad_dtype,     weight_dtype,      n};
  if (split_master)
    arrays.master_low = reinterpret_cast<std::uint16_t*>(master.data());
  else
    arrays.master = reinterpret_cast<float*>(master.data());
  arrays.moments = moments;
  return arrays;
}

AdamData PackedAdam::unpacked() const {
  AdamData data(n, grad_dtype, weight_dtype);
  data.grad = grad, data.weight = weight;
  for (std::uint64_t i = 0; i < n; ++i) {
    data.exp_avg[i] = naive_widen(exp_avg.data(), exp_avg_dtype(moments), i);
    data.exp_avg_sq[i] = naive_widen(exp_avg_sq.data(), exp_avg_sq_dtype(moments), i);
    if (!split_master) {
      data.master[i] = naive_widen(master.data(), DType::f32, i);
      continue;
    }
    // The only value that has these low bits and rounds to the weight.
    const std::uint32_t low = master[2 * i] + 256u * master[2 * i + 1];
    const std::uint32_t high = bits_of(naive_widen(weight.data(), DType::bf16, i)) / 65536;
    for (const std::uint32_t candidate : {high, high - 1}) {
      const float value = float_of(candidate * 65536 + low);
      if (naive_bf16(value) != high) continue;
      data.master[i] = value;
      break;  // for NaNs the canonical one
    }
  }
  return data;
}

void make_exact(AdamData& data, MomentFormat moments) {
  for (float& value : data.exp_avg)
    if (moments != MomentFormat::f32) value = nearest_bf16(value);
  for (float& value : data.exp_avg_sq)
    if (moments == MomentFormat::bf16) value = nearest_bf16(value);
}

namespace {

void round_moments(AdamData& data, MomentFormat moments, std::uint32_t rounding_key) {
  for (std::uint64_t i = 0; i < data.n(); ++i) {
    if (moments != MomentFormat::f32) data.exp_avg[i] = nearest_bf16(data.exp_avg[i]);
    if (moments == MomentFormat::bf16)
      data.exp_avg_sq[i] = rounded_at_random(data.exp_avg_sq[i], rounding_key, static_cast<std::uint32_t>(i));
  }
}

}  // namespace

void straight_line_update(const AdamCoefficients& c, AdamData& data, MomentFormat moments) {
  straight_line_update(c, data);
  round_moments(data, moments, c.rounding_key);
}

void straight_line_update(const LambCoefficients& c, AdamData& data, MomentFormat moments) {
  straight_line_update(c, data);
  round_moments(data, moments, c.adam.rounding_key);
}

void straight_line_update(const SgdCoefficients& c, AdamData& data, MomentFormat moments) {
  straight_line_update(c, data);
  if (moments == MomentFormat::f32) return;
  for (float& value : data.exp_avg) value = nearest_bf16(value);
}

void straight_line_update(const UpdateCoefficients& c, AdamData& data, MomentFormat moments) {
  std::visit([&](const auto& of_rule) { straight_line_update(of_rule, data, moments); }, c);
}

namespace {

/// The fold of children j, j + stride, …: halves meet from the widest stride inwards.
double folded(const std::vector<double>& children, std::size_t j, std::size_t stride) {
  if (stride == children.size()) return children[j];
  return folded(children, j, 2 * stride) + folded(children, j + stride, 2 * stride);
}

}  // namespace

double naive_sum_of_squares(const std::vector<float>& values) {
  std::vector<double> level;
  for (const float value : values) level.push_back(double{value} * double{value});
  do {
    level.resize((level.size() + 255) / 256 * 256, 0.0);
    std::vector<double> above;
    for (std::size_t first = 0; first < level.size(); first += 256)
      above.push_back(folded({level.begin() + static_cast<std::ptrdiff_t>(first),
                              level.begin() + static_cast<std::ptrdiff_t>(first + 256)},
                             0, 1));
    level = std::move(above);
  } while (level.size() > 1);
  return level.empty() ? 0 : level[0];
}

float naive_trust(const TrustTerms& terms, const std::vector<float>& weights, const std::vector<float>& gradient) {
  const double w = std::sqrt(naive_sum_of_squares(weights)), g = std::sqrt(naive_sum_of_squares(gradient));
  if (!(w > 0 && g > 0)) return 1;
  return static_cast<float>(terms.coefficient * w / (terms.grad_scale * g + terms.weight_decay * w + terms.eps));
}

void expect_same_bits(const AdamData& got, const AdamData& wanted) {
  expect_same_bytes("master", got.master.data(), wanted.master.data(), wanted.n(), 4);
  expect_same_bytes("exp_avg", got.exp_avg.data(), wanted.exp_avg.data(), wanted.n(), 4);
  expect_same_bytes("exp_avg_sq", got.exp_avg_sq.data(), wanted.exp_avg_sq.data(), wanted.n(), 4);
  expect_same_bytes("weight", got.weight.data(), wanted.weight.data(), wanted.n(), size_bytes(wanted.weight_dtype));
}

}  // namespace castor::testing

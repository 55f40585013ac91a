// SPDX-License-Identifier: Apache-2.0
#include "reduce.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <castor/memory/result.h>

#include "half.h"

namespace castor {
namespace {

/// Elements that are accumulated at a time: small enough for the first-level cache.
constexpr std::size_t kBlock = 2048;
using Block = std::array<float, kBlock>;

struct F32 {
  using Stored = float;
  static float load(float stored) { return stored; }
  static float store(float value) { return value; }
};
struct Bf16 {
  using Stored = std::uint16_t;
  static float load(std::uint16_t stored) { return bf16_to_float(stored); }
  static std::uint16_t store(float value) { return float_to_bf16(value); }
};
struct F16 {
  using Stored = std::uint16_t;
  static float load(std::uint16_t stored) { return f16_to_float(stored); }
  static std::uint16_t store(float value) { return float_to_f16(value); }
};

float sum(float total, float next) { return total + next; }
float larger(float most, float next) { return next > most || most != most ? next : most; }

template <typename Type, typename Combine>
void reduce_block(std::span<const std::byte* const> sources, std::span<std::byte* const> targets, std::uint64_t first,
                  std::size_t n, Combine combine) {
  Block total;
  std::array<typename Type::Stored, kBlock> stored;
  const auto offset_bytes = first * sizeof stored[0];
  for (std::size_t source = 0; source < sources.size(); ++source) {
    std::memcpy(stored.data(), sources[source] + offset_bytes, n * sizeof stored[0]);
    for (std::size_t k = 0; k < n; ++k) {
      const float next = Type::load(stored[k]);
      total[k] = source == 0 ? next : combine(total[k], next);
    }
  }
  for (std::size_t k = 0; k < n; ++k) stored[k] = Type::store(total[k]);
  for (auto* target : targets) std::memcpy(target + offset_bytes, stored.data(), n * sizeof stored[0]);
}

template <typename Type>
void reduce_as(std::span<const std::byte* const> sources, std::span<std::byte* const> targets, std::uint64_t n_elements,
               ReduceOp op) {
  for (std::uint64_t first = 0; first < n_elements; first += kBlock) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, n_elements - first));
    if (op == ReduceOp::sum)
      reduce_block<Type>(sources, targets, first, n, sum);
    else
      reduce_block<Type>(sources, targets, first, n, larger);
  }
}

}  // namespace

void reduce_in_order(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                     std::uint64_t n_elements, DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::f32: return reduce_as<F32>(sources, targets, n_elements, op);
    case DType::bf16: return reduce_as<Bf16>(sources, targets, n_elements, op);
    case DType::f16: return reduce_as<F16>(sources, targets, n_elements, op);
    case DType::u8: throw ContractViolation("bytes are moved, not reduced");
  }
}

}  // namespace castor

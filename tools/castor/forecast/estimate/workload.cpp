// SPDX-License-Identifier: Apache-2.0
#include "workload.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace castor::estimate {
namespace {

/// The loss works in fp32 on this many logits at a time, with kLossCopies copies of them.
constexpr std::uint64_t kLogitsAtOnce = 8 * 1024 * 1024;
constexpr std::uint64_t kLossCopies = 3;

std::uint64_t numel(const shapes::Unit& unit) {
  return std::accumulate(unit.numels.begin(), unit.numels.end(), std::uint64_t{0});
}

std::uint64_t tokens_per_sample(const shapes::Model& model, const Workload& work) {
  return model.image_tokens > 0 ? model.image_tokens : work.seq;
}

/// Bytes of the logits, their gradient, and the fp32 copies.
std::uint64_t loss_bytes(const shapes::Model& model, const Workload& work) {
  const double n_positions = model.units.back().token_share * static_cast<double>(n_tokens(model, work));
  const std::uint64_t n_logits = static_cast<std::uint64_t>(std::llround(n_positions)) * model.classes;
  return 2 * size_bytes(work.precision) * n_logits + kLossCopies * 4 * std::min(n_logits, kLogitsAtOnce);
}

}  // namespace

std::uint64_t n_tokens(const shapes::Model& model, const Workload& work) {
  return work.batch * tokens_per_sample(model, work);
}

double forward_flops(const shapes::Model& model, UnitId unit, const Workload& work) {
  const shapes::Unit& used = model.units.at(unit);
  const shapes::Unit& weights = used.shares ? model.units.at(*used.shares) : used;
  const double passing = used.token_share * static_cast<double>(n_tokens(model, work));
  const double products = 2 * static_cast<double>(numel(weights)) * passing;
  if (!used.attends) return products;
  const double s = static_cast<double>(tokens_per_sample(model, work));
  const double attention = 4 * s * s * static_cast<double>(model.hidden * work.batch);
  return products + attention * (model.causal ? 0.5 : 1);
}

std::uint64_t block_input_bytes(const shapes::Model& model, const Workload& work) {
  return model.hidden * n_tokens(model, work) * size_bytes(work.precision);
}

NonModel non_model(const shapes::Model& model, const Workload& work) {
  const std::uint64_t bytes_per_row = n_tokens(model, work) * size_bytes(work.precision);
  const std::uint64_t block_bytes = model.kept_by_block * bytes_per_row;
  const std::uint64_t row_bytes = block_input_bytes(model, work);
  const std::uint64_t input_bytes = work.inputs_in_chunks() ? 0 : row_bytes;
  const std::uint64_t inner_gradient_bytes = 2 * model.ffn * bytes_per_row;
  NonModel bytes;
  bytes.kept_bytes = model.layers * (work.recompute ? input_bytes : block_bytes) + 2 * row_bytes;
  bytes.at_once_bytes = std::max(loss_bytes(model, work), inner_gradient_bytes + (work.recompute ? block_bytes : 0));
  for (const shapes::Unit& unit : model.units)
    bytes.gradient_bytes = std::max(bytes.gradient_bytes, numel(unit) * size_bytes(work.precision));
  return bytes;
}

}  // namespace castor::estimate

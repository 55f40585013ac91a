// SPDX-License-Identifier: Apache-2.0
#include "bench/step/idle_model.h"

#include <algorithm>

#include <castor/training/optimizer.h>

namespace castor::bench {
namespace {

constexpr std::uint16_t kGradientBits = 0x3a83;  // about 0.001 in bf16

}  // namespace

IdleModel::IdleModel(const RecordedStep& step, Stopped stopped) : RecordedModel(step), stopped_(std::move(stopped)) {
  std::uint64_t longest = 0;
  for (const RecordedStep::Param& param : step.params) longest = std::max(longest, param.numel());
  gradient_.assign(longest, kGradientBits);
}

Result<void> IdleModel::step(Strategy& strategy) {
  return run(strategy, step_args(AdamW{.lr = 1e-4, .weight_decay = 0.1}));
}

DLManagedTensor* IdleModel::gradient(std::uint32_t param) {
  return gradient_at(param, gradient_.data(), nullptr, [](DLManagedTensor* self) { delete self; });
}

}  // namespace castor::bench

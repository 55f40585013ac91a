// SPDX-License-Identifier: Apache-2.0
#include "bench/step/idle_model.h"

#include <algorithm>

#include "forecast/estimate/iteration.h"

namespace castor::bench {
namespace {

constexpr std::uint16_t kGradientBits = 0x3a83;  // about 0.001 in bf16

}  // namespace

IdleModel::IdleModel(const shapes::Model& shape, Stopped stopped)
    : stopped_(std::move(stopped)), script_(estimate::script_of(shape, {})) {
  for (const shapes::Unit& unit : shape.units) {
    Unit& own = units_.emplace_back(Unit{unit.name, {}});
    if (unit.shares) own.params = units_[index(*unit.shares)].params;
    for (std::size_t i = 0; i < unit.numels.size(); ++i) {
      own.params.push_back(static_cast<std::uint32_t>(params_.size()));
      params_.push_back({unit.name + "." + std::to_string(i), static_cast<std::int64_t>(unit.numels[i])});
      gradient_.resize(std::max<std::size_t>(gradient_.size(), unit.numels[i]), kGradientBits);
    }
  }
  n_elements_ = shape.n_params();
}

Result<castor_unit_info> IdleModel::unit_info(std::uint32_t unit) {
  const Unit& found = units_.at(unit);
  return castor_unit_info{sizeof(castor_unit_info), static_cast<std::uint32_t>(found.params.size()), found.name.c_str(),
                          found.params.data()};
}

Result<castor_param_info> IdleModel::param_info(std::uint32_t param) {
  const Param& found = params_.at(param);
  auto info = blank<castor_param_info>();
  info.flags = CASTOR_PARAM_TRAINABLE;
  info.name = found.name.c_str();
  info.shape = &found.numel, info.ndim = 1;
  info.dtype = {kDLBfloat, 16, 1}, info.numel = static_cast<std::uint64_t>(found.numel), info.storage = param;
  return info;
}

Result<void> IdleModel::first_values(const castor_values& values) {
  std::fill_n(static_cast<float*>(values.data), values.n, 0.02f);
  return {};
}

Result<void> IdleModel::step(Strategy& strategy) {
  castor_step_args args{};
  args.struct_size = sizeof args;
  args.optimizer = CASTOR_ADAMW;
  args.lr = 1e-4, args.beta1 = 0.9, args.beta2 = 0.999, args.eps = 1e-8, args.weight_decay = 0.1, args.loss_scale = 1;
  for (const StepCall& call : script_) CASTOR_TRY(play(call, strategy, args));
  const auto done = strategy.step(args);
  return done.ok() ? Result<void>() : done.error();
}

/// Parameters have the numbers of their tensors in the script.
Result<void> IdleModel::play(const StepCall& call, Strategy& strategy, const castor_step_args& args) {
  switch (call.kind) {
    case StepCall::Kind::forward: return strategy.before_forward(call.id);
    case StepCall::Kind::end_forward: return strategy.after_forward(call.id);
    case StepCall::Kind::backward: return strategy.before_backward(call.id);
    case StepCall::Kind::end_backward: return strategy.after_backward(call.id);
    case StepCall::Kind::gradient: return strategy.gradient(call.id, gradient(call.id));
    case StepCall::Kind::announce: return strategy.announce_step(args);
    case StepCall::Kind::end_of_backward: return strategy.end_of_backward();
    default: return Error{ErrorKind::usage, "a model that computes nothing keeps no activations"};
  }
}

/// A view of the array of numbers that all gradients share.
DLManagedTensor* IdleModel::gradient(std::uint32_t param) {
  auto made = std::make_unique<DLManagedTensor>();
  made->dl_tensor = {gradient_.data(), {kDLCPU, 0}, 1, {kDLBfloat, 16, 1}, &params_[param].numel, nullptr, 0};
  made->deleter = [](DLManagedTensor* self) { delete self; };
  return made.release();
}

}  // namespace castor::bench

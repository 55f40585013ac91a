// SPDX-License-Identifier: Apache-2.0
#include "bench/step/idle_model.h"

#include <algorithm>

#include "forecast/estimate/iteration.h"

namespace castor::bench {
namespace {

constexpr std::uint16_t kGradientBits = 0x3a83;  // about 0.001 in bf16

IdleModel& model_of(void* self) { return *static_cast<IdleModel*>(self); }

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
  n_params_ = shape.n_params();
  fill_table();
}

void IdleModel::fill_table() {
  table_.struct_size = sizeof table_;
  table_.self = this;
  table_.set_error = [](void* self, const char* message) { model_of(self).error_ = message; };
  table_.log = [](void*, castor_log_level, const char*) {};
  table_.n_units = [](void* self) { return static_cast<std::uint32_t>(model_of(self).units_.size()); };
  table_.n_params = [](void* self) { return static_cast<std::uint32_t>(model_of(self).params_.size()); };
  table_.unit_info = [](void* self, std::uint32_t unit, castor_unit_info* out) {
    const Unit& found = model_of(self).units_.at(unit);
    *out = {found.name.c_str(), found.params.data(), static_cast<std::uint32_t>(found.params.size())};
    return CASTOR_OK;
  };
  table_.param_info = [](void* self, std::uint32_t param, castor_param_info* out) {
    const Param& found = model_of(self).params_.at(param);
    *out = {found.name.c_str(),    &found.numel, 1, {kDLBfloat, 16, 1}, static_cast<std::uint64_t>(found.numel),
            CASTOR_PARAM_TRAINABLE};
    return CASTOR_OK;
  };
  table_.init_param = [](void* self, std::uint32_t param, float* out) {
    return std::fill_n(out, model_of(self).params_.at(param).numel, 0.02f), CASTOR_OK;
  };
  table_.init_param_range = [](void*, std::uint32_t, std::uint64_t, std::uint64_t n, float* out) {
    return std::fill_n(out, n, 0.02f), CASTOR_OK;
  };
  table_.bind = [](void*, std::uint32_t, void*) { return CASTOR_OK; };
  table_.unbind = [](void*, std::uint32_t, const char*) { return CASTOR_OK; };
  table_.device = [](void*) { return DLDevice{kDLCPU, 0}; };
  table_.compute_stream = [](void*) -> void* { return nullptr; };
  table_.device_memory = [](void*, castor_device_memory* out) { return *out = {}, CASTOR_OK; };
  table_.reset_device_peak = [](void*) {};
  table_.interrupted = [](void* self) { return static_cast<std::int32_t>(model_of(self).stopped_()); };
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

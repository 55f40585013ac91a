// SPDX-License-Identifier: Apache-2.0
#include "adapter_core.h"

#include <castor/plugins/torch/errors.h>
#include "gradient_capture.h"
#include "parameter_storage.h"
#include "units/rethrowing.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/nn/module.h>

#include <algorithm>

namespace castor {
namespace {

bool in_backward() { return torch::autograd::get_current_graph_task_id() != -1; }

}  // namespace

AdapterCore::~AdapterCore() { unhook(); }

void AdapterCore::connect(Strategy* strategy, Hooking hooking) {
  if (strategy_ != nullptr && strategy != nullptr && strategy != strategy_)
    throw ContractViolation(
        "TorchAdapter: a strategy is connected already; connect(nullptr) and destroy it before the next");
  if (strategy != nullptr) check_free().value();
  unhook();
  stand_ins_.forget();
  strategy_ = strategy;
  hooking_ = hooking;
  trained_.clear();
  if (strategy != nullptr) host_.keep_memory();
  for (const ParamEntry& param : host_.map().params) trained_.push_back(param.tensor.requires_grad());
  if (strategy != nullptr && hooking == Hooking::units) hook();
}

Result<void> AdapterCore::check_free() const {
  const auto taken = [](const std::string& what) {
    return Error{ErrorKind::usage, what +
                                       " is trained by another strategy; end that session, or disconnect its "
                                       "adapter, before the model is given to a new one"};
  };
  for (const UnitEntry& unit : host_.map().units)
    if (unit.border->hooks() != nullptr && unit.border->hooks() != this) return taken("unit " + unit.name);
  for (const ParamEntry& param : host_.map().params) {
    const void* const owner = owner_of(storage_of(param.tensor));
    if (owner != nullptr && owner != &host_) return taken("parameter " + param.name);
  }
  return {};
}

void AdapterCore::disconnect(const Strategy* strategy) {
  if (strategy_ == strategy) connect(nullptr, Hooking::none);
}

void AdapterCore::hook() {
  const auto sink = [this](std::uint32_t param, const at::Tensor& grad) {
    rethrowing(host_.rethrow(), [&] { take_gradient(param, grad); });
  };
  const ModelMap& map = host_.map();
  keeper_ = std::make_shared<TensorKeeper>(*strategy_, host_.torch_device());
  uses_ = std::make_shared<UnitUses>(*this, host_.rethrow());
  for (std::uint32_t unit = 0; unit < map.units.size(); ++unit) map.units[unit].border->set_hooks(this, unit);
  for (std::uint32_t param = 0; param < map.params.size(); ++param)
    if (trained_[param]) capture_gradient(map.params[param].tensor, param, sink);
}

void AdapterCore::take_gradient(std::uint32_t param, const at::Tensor& grad) {
  const ParamEntry& of = host_.map().params[param];
  if (grad.layout() != at::kStrided)
    throw ErrorException({ErrorKind::usage, "the gradient of parameter " + of.name +
                                                " is sparse, and strategies take dense ones; make its embedding dense "
                                                "(sparse=False)"});
  begin_backward();
  check(strategy_->gradient(param, handed_over(grad, of.tensor)));
  stand_ins_.handed_over(param);
}

void AdapterCore::unhook() {
  if (strategy_ == nullptr || hooking_ == Hooking::none) return;
  for (const UnitEntry& unit : host_.map().units) unit.border->set_hooks(nullptr, 0);
  for (const ParamEntry& param : host_.map().params) stop_capture(param.tensor);
  std::exchange(keeper_, nullptr)->disconnect();
  std::exchange(uses_, nullptr)->disconnect();
}

void AdapterCore::stop_if_interrupted() const {
  if (host_.stopped()) throw ErrorException({ErrorKind::interrupted, "stopped by the user"});
}

/// Autograd has no return channel: an Error travels through it as an exception.
void AdapterCore::check(const Result<void>& result) {
  if (result.ok()) return;
  strategy_failed_ = true;
  throw ErrorException(result.error());
}

/// After an exception in backward units may still be open. A strategy that has failed itself ends its passes when it
/// abandons the step.
void AdapterCore::close_open_units() {
  for (const std::uint32_t unit : uses_->take_open())
    if (!strategy_failed_) strategy_failed_ = !strategy_->after_backward(unit).ok();
}

void AdapterCore::tell_micro_batch() {
  if (host_.passes() == nullptr || !at::GradMode::is_enabled()) return;
  if (const auto begun = host_.passes()->begun_micro_batch()) check(strategy_->begin_micro_batch(*begun));
}

void AdapterCore::before_forward(std::uint32_t unit) {
  stop_if_interrupted();
  if (in_backward()) {
    begin_backward();
  } else {
    end_broken_pass().value();
    if (at::GradMode::is_enabled() || trains_ == std::thread::id()) trains_ = std::this_thread::get_id();
    if (host_.passes() != nullptr) host_.passes()->may_run_forward().value();
    close_open_units();
    strategy_failed_ = false;
    for (const std::uint32_t param : host_.map().units[unit].params) check_memory(param).value();
    tell_micro_batch();
  }
  check(strategy_->before_forward(unit));
}

void AdapterCore::after_forward(std::uint32_t unit) { check(strategy_->after_forward(unit)); }

void AdapterCore::forward_cut_short(std::uint32_t unit) {
  if (!strategy_failed_) strategy_failed_ = !strategy_->after_forward(unit).ok();
}

/// Of the graph tasks within each other that a pass may have, the outermost comes here first: the others are begun by
/// units that are recomputed in it.
void AdapterCore::begin_backward() {
  if (backward_ != Backward::none || host_.passes() == nullptr) return;
  check_params().value();
  check_gradients().value();
  host_.passes()->begin_backward().value();
  stand_ins_.hide();
  backward_ = Backward::begun_by_autograd;
  const auto pass = std::make_shared<char>();
  autograds_pass_ = pass;
  torch::autograd::Engine::get_default_engine().queue_callback([this, pass, alive = std::weak_ptr(uses_)] {
    if (!alive.expired()) rethrowing(host_.rethrow(), [this] { end_of_autograds_pass(); });
  });
}

void AdapterCore::end_of_autograds_pass() {
  backward_ = Backward::none;
  uses_->end_all();
  const auto ended = strategy_->end_of_backward();
  host_.passes()->end_backward(ended.ok());
  stand_ins_.show();
  check(ended);
}

/// The thread that trains has left the pass where it makes another call. Its graph task may then live a little longer in a
/// thread of autograd.
Result<void> AdapterCore::end_broken_pass() {
  if (backward_ != Backward::begun_by_autograd || in_backward()) return {};
  if (std::this_thread::get_id() != trains_ && !autograds_pass_.expired())
    return Error{ErrorKind::usage, "another thread is in a backward pass of the model; wait for it to end"};
  backward_ = Backward::none;
  close_open_units();
  host_.passes()->end_backward(false);
  return {};
}

void AdapterCore::before_backward(std::uint32_t unit) {
  stop_if_interrupted();
  begin_backward();
  check(strategy_->before_backward(unit));
}

void AdapterCore::after_backward(std::uint32_t unit) { check(strategy_->after_backward(unit)); }

bool AdapterCore::reads_parameter(std::uint32_t unit, const at::Tensor& tensor) const {
  if (!tensor.has_storage()) return false;
  const ModelMap& map = host_.map();
  const auto& params = map.units[unit].params;
  return std::any_of(params.begin(), params.end(),
                     [&](std::uint32_t param) { return &storage_of(map.params[param].tensor) == &storage_of(tensor); });
}

/// Graphs own the nodes at which gradients of parameters are accumulated.
bool AdapterCore::is_in_graph(std::uint32_t unit) const {
  const ModelMap& map = host_.map();
  const auto& params = map.units[unit].params;
  return std::any_of(params.begin(), params.end(), [&](std::uint32_t param) {
    return torch::autograd::impl::try_get_grad_accumulator(map.params[param].tensor) != nullptr;
  });
}

Result<void> AdapterCore::check_backward(const at::Tensor& loss) const {
  if (!loss.defined()) return Error{ErrorKind::usage, "the loss is an undefined tensor"};
  if (loss.numel() != 1)
    return Error{ErrorKind::usage, "the loss has " + std::to_string(loss.numel()) +
                                       " elements; backward begins from one: take their sum or mean"};
  if (!loss.requires_grad())
    return Error{ErrorKind::usage,
                 "the loss depends on no trained parameter, or was computed without gradients (NoGradGuard)"};
  return check_params();
}

Result<void> AdapterCore::check_memory(std::size_t id) const {
  const ParamEntry& param = host_.map().params[id];
  if (!param.own.defined() || &storage_of(param.tensor) == &storage_of(param.own)) return {};
  CASTOR_TRY(guard([&] { param.tensor.set_data(param.own); }));
  return Error{
      ErrorKind::usage,
      "parameter " + param.name +
          " was given other memory (parameter.data = …, set_data) since the model was boosted, and has its own "
          "again now, with the values from before; for others write them in place within "
          "castor.gathered(parameter, write=True), or load them"};
}

/// A parameter that was frozen since then gets no gradient and stays as it is; one that was not trained has no states.
Result<void> AdapterCore::check_params() const {
  for (std::size_t id = 0; strategy_ != nullptr && id < trained_.size(); ++id) {
    const ParamEntry& param = host_.map().params[id];
    CASTOR_TRY(check_memory(id));
    if (param.tensor.requires_grad() && !trained_[id])
      return Error{ErrorKind::usage, "parameter " + param.name +
                                         " was frozen when the model was boosted and requires a gradient now, but has "
                                         "no optimizer states; let it require one when the model is boosted, and "
                                         "freeze it after that"};
    if (trained_[id] && hooking_ == Hooking::units && !is_captured(param.tensor))
      return Error{ErrorKind::usage, "the hook that hands over the gradient of parameter " + param.name +
                                         " was replaced; set hooks of your own before the strategy is connected"};
  }
  return {};
}

UnitBorder& AdapterCore::border_of(const torch::nn::Module& module) const {
  const auto& borders = host_.map().border_of;
  if (const auto found = borders.find(&module); found != borders.end()) return *found->second;
  throw ErrorException({ErrorKind::usage, "module " + module.name() + " is no unit; choose it as one with is_unit"});
}

Result<void> AdapterCore::backward(const at::Tensor& loss, double loss_scale, const BeforeBackward& before) {
  CASTOR_TRY(check_backward(loss));
  if (before) CASTOR_TRY(before());
  CASTOR_TRY(end_broken_pass());
  backward_ = Backward::called;
  const auto done = guard([&] { loss.backward(at::full_like(loss.detach(), loss_scale)); });
  backward_ = Backward::none;
  if (!done.ok() && uses_) close_open_units();
  CASTOR_TRY(done);
  return strategy_ == nullptr ? Result<void>() : strategy_->end_of_backward();
}

}  // namespace castor

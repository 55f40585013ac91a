// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/torch_adapter.h>

#include <castor/plugins/torch/errors.h>
#include <castor/plugins/torch/unit.h>
#include "adapter_core.h"
#include "gradient_capture.h"
#include "parameter_storage.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>

namespace castor {
namespace {

bool in_backward() { return torch::autograd::get_current_graph_task_id() != -1; }

Result<void> initialise(c10::Device device) {
  return guard([&] {
    if (!device.is_cpu()) at::globalContext().lazyInitDevice(device.type());
  });
}

}  // namespace

AdapterCore::~AdapterCore() { unhook(); }

void AdapterCore::connect(Strategy* strategy, Hooking hooking) {
  if (strategy_ != nullptr && strategy != nullptr && strategy != strategy_)
    throw ContractViolation(
        "TorchAdapter: a strategy is connected already; connect(nullptr) and destroy it before the next");
  unhook();
  strategy_ = strategy;
  hooking_ = hooking;
  if (strategy != nullptr && hooking == Hooking::units) hook();
}

void AdapterCore::disconnect(const Strategy* strategy) {
  if (strategy_ == strategy) connect(nullptr, Hooking::none);
}

void AdapterCore::hook() {
  const auto sink = [this](std::uint32_t param, DLManagedTensor* grad) { check(strategy_->gradient(param, grad)); };
  const ModelMap& map = host_.map();
  keeper_ = std::make_shared<TensorKeeper>(*strategy_, host_.torch_device());
  uses_ = std::make_shared<UnitUses>(*this);
  for (std::uint32_t unit = 0; unit < map.units.size(); ++unit) map.units[unit].unit->set_hooks(this, unit);
  for (std::uint32_t param = 0; param < map.params.size(); ++param)
    if (map.params[param].tensor.requires_grad()) capture_gradient(map.params[param].tensor, param, sink);
}

void AdapterCore::unhook() {
  if (strategy_ == nullptr || hooking_ == Hooking::none) return;
  for (const UnitEntry& unit : host_.map().units) unit.unit->set_hooks(nullptr, 0);
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
void AdapterCore::end_broken_backward() {
  for (const std::uint32_t unit : uses_->take_open())
    if (!strategy_failed_) strategy_failed_ = !strategy_->after_backward(unit).ok();
}

void AdapterCore::before_forward(std::uint32_t unit) {
  stop_if_interrupted();
  if (!in_backward()) {
    end_broken_backward();
    strategy_failed_ = false;
  }
  check(strategy_->before_forward(unit));
}

void AdapterCore::after_forward(std::uint32_t unit) { check(strategy_->after_forward(unit)); }

void AdapterCore::forward_cut_short(std::uint32_t unit) {
  if (!strategy_failed_) strategy_failed_ = !strategy_->after_forward(unit).ok();
}

void AdapterCore::before_backward(std::uint32_t unit) {
  stop_if_interrupted();
  check(strategy_->before_backward(unit));
}

void AdapterCore::after_backward(std::uint32_t unit) { check(strategy_->after_backward(unit)); }

bool AdapterCore::reads_parameter(std::uint32_t unit, const at::Tensor& tensor) const {
  if (!tensor.has_storage()) return false;
  const ModelMap& map = host_.map();
  const auto& params = map.units[unit].params;
  return std::any_of(params.begin(), params.end(), [&](std::uint32_t param) {
    return &storage_of(map.params[param].tensor) == &storage_of(tensor);
  });
}

Result<void> AdapterCore::backward(const at::Tensor& loss, double loss_scale) {
  const auto done = guard([&] { loss.backward(at::full_like(loss.detach(), loss_scale)); });
  if (!done.ok() && uses_) end_broken_backward();
  CASTOR_TRY(done);
  return strategy_ == nullptr ? Result<void>() : strategy_->end_of_backward();
}

TorchAdapter::TorchAdapter(std::unique_ptr<AdapterCore> core) : core_(std::move(core)) {}
TorchAdapter::~TorchAdapter() = default;

Result<std::unique_ptr<TorchAdapter>> TorchAdapter::make(std::shared_ptr<torch::nn::Module> model, c10::Device device,
                                                         std::uint64_t seed, std::function<bool()> interrupted) {
  CASTOR_TRY(initialise(device));
  CASTOR_ASSIGN(ModelMap map, map_model(*model, device));
  return std::unique_ptr<TorchAdapter>(new TorchAdapter(
      std::make_unique<AdapterCore>(std::move(model), std::move(map), device, seed, std::move(interrupted))));
}

ModelHost& TorchAdapter::host() { return core_->host(); }
std::uint32_t TorchAdapter::n_params() const { return static_cast<std::uint32_t>(core_->host().map().params.size()); }

void TorchAdapter::connect(Strategy* strategy) {
  if (!core_->is_resident(strategy)) core_->connect(strategy, AdapterCore::Hooking::units);
}

Result<void> TorchAdapter::backward(const at::Tensor& loss, double loss_scale) {
  return core_->backward(loss, loss_scale);
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/torch_adapter.h>

#include <castor/plugins/torch/errors.h>
#include "adapter_core.h"
#include "device_memory.h"

#include <ATen/Context.h>

namespace castor {
namespace {

/// `device`, initialised, with its number.
Result<c10::Device> ready(c10::Device device) {
  return guard([&] {
    if (!device.is_cpu() && !device.is_meta()) at::globalContext().lazyInitDevice(device.type());
    return numbered(device);
  });
}

}  // namespace

TorchAdapter::TorchAdapter(std::unique_ptr<AdapterCore> core) : core_(std::move(core)) {}
TorchAdapter::~TorchAdapter() = default;

Result<std::unique_ptr<TorchAdapter>> TorchAdapter::make(std::shared_ptr<torch::nn::Module> model, c10::Device device,
                                                         AdapterOptions options) {
  CASTOR_ASSIGN(device, ready(device));
  CASTOR_ASSIGN(ModelMap map, map_model(*model, device, options.is_unit));
  return std::unique_ptr<TorchAdapter>(
      new TorchAdapter(std::make_unique<AdapterCore>(std::move(model), std::move(map), device, std::move(options))));
}

Result<std::unique_ptr<TorchAdapter>> TorchAdapter::make(const ModelParts& model, c10::Device device,
                                                         AdapterOptions options) {
  CASTOR_ASSIGN(device, ready(device));
  CASTOR_ASSIGN(ModelMap map, map_parts(model, device));
  return std::unique_ptr<TorchAdapter>(
      new TorchAdapter(std::make_unique<AdapterCore>(nullptr, std::move(map), device, std::move(options))));
}

ModelHost& TorchAdapter::host() { return core_->host(); }
std::uint32_t TorchAdapter::n_params() const { return static_cast<std::uint32_t>(core_->host().map().params.size()); }

void TorchAdapter::connect(Strategy* strategy) {
  if (!core_->is_resident(strategy)) core_->connect(strategy, AdapterCore::Hooking::units);
}

NamedTensors TorchAdapter::params() const {
  NamedTensors found;
  for (const ParamEntry& param : core_->host().map().params) found.emplace_back(param.name, param.tensor);
  return found;
}

UnitBorder& TorchAdapter::unit(std::size_t number) const { return *core_->host().map().units.at(number).border; }

UnitBorder& TorchAdapter::border_of(const torch::nn::Module& module) const { return core_->border_of(module); }

Result<void> TorchAdapter::check_free() const { return core_->check_free(); }

Result<void> TorchAdapter::end_broken_pass() { return core_->end_broken_pass(); }
std::vector<std::uint32_t> TorchAdapter::forget_gradients() { return core_->forget_gradients(); }
Result<void> TorchAdapter::check_gradients() const { return core_->check_gradients(); }
Result<void> TorchAdapter::check_memory(std::size_t param) const { return core_->check_memory(param); }

Result<void> TorchAdapter::backward(const at::Tensor& loss, double loss_scale, const BeforeBackward& before) {
  return core_->backward(loss, loss_scale, before);
}

}  // namespace castor

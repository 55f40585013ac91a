// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/record_step.h>

#include <castor/plugins/torch/errors.h>
#include <castor/plugins/torch/torch_adapter.h>

#include "meta_kernels.h"
#include "recording_strategy.h"

#include <torch/nn/module.h>

namespace castor {
namespace {

Result<RecordedStep> shape_of(ModelHost& host) {
  RecordedStep step;
  for (std::uint32_t param = 0; param < host.n_params(); ++param) {
    CASTOR_ASSIGN(const castor_param_info info, host.param_info(param));
    step.params.push_back({info.name, {info.shape, info.shape + info.ndim}, info.dtype, info.flags});
  }
  for (std::uint32_t unit = 0; unit < host.n_units(); ++unit) {
    CASTOR_ASSIGN(const castor_unit_info info, host.unit_info(unit));
    step.units.push_back({info.name, {info.params, info.params + info.n_params}});
  }
  return step;
}

Result<void> check_device(const std::string& name, const at::Tensor& param) {
  if (param.is_meta()) return {};
  return Error{ErrorKind::usage, "parameter " + name + " is on " + param.device().str() +
                                     "; a step is recorded on the meta device: build the model there"};
}

}  // namespace

struct StepRecording::Parts {
  Parts(std::unique_ptr<TorchAdapter> of_model, RecordedStep shape, bool keeps_inputs)
      : adapter(std::move(of_model)), step(std::move(shape)), strategy(keeps_inputs) {
    adapter->connect(&strategy);
  }
  ~Parts() { adapter->connect(nullptr); }

  static Result<std::unique_ptr<Parts>> make(Result<std::unique_ptr<TorchAdapter>> adapter, bool keeps_inputs) {
    if (!adapter.ok()) return adapter.error();
    CASTOR_ASSIGN(RecordedStep shape, shape_of((*adapter)->host()));
    return std::make_unique<Parts>(std::move(adapter).value(), std::move(shape), keeps_inputs);
  }

  Result<RecordedStep> end(const at::Tensor& loss) {
    CASTOR_TRY(strategy.announce_step({}));
    CASTOR_TRY(adapter->backward(loss));
    step.calls = strategy.take();
    return std::move(step);
  }

  std::unique_ptr<TorchAdapter> adapter;
  RecordedStep step;
  MetaKernels kernels;
  RecordingStrategy strategy;
};

StepRecording::StepRecording(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
StepRecording::~StepRecording() = default;

Result<std::unique_ptr<StepRecording>> StepRecording::begin(const ModelParts& model, bool keeps_inputs) {
  for (const auto& [name, param] : model.params) CASTOR_TRY(check_device(name, param));
  CASTOR_ASSIGN(auto parts, Parts::make(TorchAdapter::make(model, c10::kMeta), keeps_inputs));
  return std::unique_ptr<StepRecording>(new StepRecording(std::move(parts)));
}

UnitBorder& StepRecording::unit(std::size_t number) const { return parts_->adapter->unit(number); }
void StepRecording::begin_operator() { parts_->strategy.begin_operator(); }
void StepRecording::end_operator() { parts_->strategy.end_operator(); }
Result<RecordedStep> StepRecording::end(const at::Tensor& loss) { return parts_->end(loss); }

Result<RecordedStep> record_step(std::shared_ptr<torch::nn::Module> model, const std::function<at::Tensor()>& loss,
                                 const RecordingOptions& options) {
  for (const auto& param : model->named_parameters()) CASTOR_TRY(check_device(param.key(), param.value()));
  AdapterOptions adapter_options;
  adapter_options.is_unit = options.is_unit;
  auto adapter = TorchAdapter::make(std::move(model), c10::kMeta, std::move(adapter_options));
  CASTOR_ASSIGN(const auto recording, StepRecording::Parts::make(std::move(adapter), options.keeps_inputs));
  CASTOR_ASSIGN(const at::Tensor found, guard(loss));
  return recording->end(found);
}

}  // namespace castor

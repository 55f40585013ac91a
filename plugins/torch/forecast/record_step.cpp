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

Result<void> check_device(const torch::nn::Module& model) {
  for (const auto& param : model.named_parameters())
    if (!param.value().is_meta())
      return Error{ErrorKind::usage, "parameter " + param.key() + " is on " + param.value().device().str() +
                                         "; a step is recorded on the meta device: build the model there"};
  return {};
}

}  // namespace

Result<RecordedStep> record_step(std::shared_ptr<torch::nn::Module> model, const std::function<at::Tensor()>& loss,
                                 const RecordingOptions& options) {
  CASTOR_TRY(check_device(*model));
  AdapterOptions adapter_options;
  adapter_options.is_unit = options.is_unit;
  CASTOR_ASSIGN(const auto adapter, TorchAdapter::make(std::move(model), c10::kMeta, std::move(adapter_options)));
  CASTOR_ASSIGN(RecordedStep step, shape_of(adapter->host()));
  const MetaKernels kernels;
  RecordingStrategy recording(options.keeps_inputs);
  adapter->connect(&recording);
  const auto run = [&]() -> Result<void> {
    CASTOR_ASSIGN(const at::Tensor found, guard(loss));
    CASTOR_TRY(recording.announce_step({}));
    return adapter->backward(found);
  };
  const auto ran = run();
  adapter->connect(nullptr);
  CASTOR_TRY(ran);
  step.calls = recording.take();
  return step;
}

}  // namespace castor

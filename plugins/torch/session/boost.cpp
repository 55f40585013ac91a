// SPDX-License-Identifier: Apache-2.0
#include "session_parts.h"

#include <castor/memory/device.h>
#include <castor/plugins/dl_dtype.h>
#include <castor/plugins/torch/runtime.h>

#include <torch/nn/module.h>

#include <algorithm>

namespace castor {
namespace {

/// The device of a model, by its first parameter; an adapter refuses a model without any.
c10::Device device_of(const at::Tensor* first_param) {
  return first_param && first_param->defined() ? first_param->device() : c10::Device(c10::kCPU);
}

bool has_fp16(const ModelParams& params) {
  return std::any_of(params.begin(), params.end(), [](const castor_param_info& param) { return is_fp16(param.dtype); });
}

/// The folders of the run: those of its own, or those in which the plugin commits.
Result<RunFolders> folders_of(const StrategyChoice& choice, const SessionOptions& options) {
  RunFolders::Settings settings{options.resume_from, options.save_in};
  PluginByName named;
  if (const auto* given = std::get_if<PluginByName>(&choice)) named = *given;
  if (const auto* gemini = std::get_if<Gemini>(&choice)) {
    CASTOR_ASSIGN(named, by_name(*gemini));
  }
  const auto committed = committed_folders(named.options);
  settings.commits = !committed.empty() && options.save_in.empty();
  if (settings.commits) settings.save_in = committed;
  return RunFolders::open(settings);
}

using MakeAdapter = std::function<Result<std::unique_ptr<TorchAdapter>>(AdapterOptions)>;

Result<std::unique_ptr<Session::Parts>> make_parts(const MakeAdapter& make_adapter, const StrategyChoice& choice,
                                                   const Optimizer& optimizer, SessionOptions options) {
  auto parts = std::make_unique<Session::Parts>();
  Session::Parts& p = *parts;
  CASTOR_TRY(check_micro_batches(options));
  CASTOR_ASSIGN(p.folders, folders_of(choice, options));
  CASTOR_ASSIGN(p.adapter, make_adapter({.seed = options.seed,
                                         .interrupted = options.interrupted,
                                         .is_unit = options.is_unit,
                                         .log = options.log,
                                         .passes = &p,
                                         .rethrow = options.rethrow,
                                         .grad_message = options.grad_message}));
  CASTOR_TRY(p.adapter->check_free());
  CASTOR_ASSIGN(p.params, params_of(p.adapter->host()));
  for (const ParamId id : p.params.ids()) p.id_of.emplace(p.params[id].name, id);
  p.options = std::move(options);
  if (p.options.scaler || has_fp16(p.params)) {
    CASTOR_ASSIGN(p.scaler, DynamicGradScaler::make(p.options.scaler.value_or(GradScalerOptions{})));
  }
  CASTOR_TRY(p.set_values(step_args(optimizer)));
  if (p.options.log)
    for (const std::string& warning : p.folders.warnings(p.params, p.values.optimizer))
      p.options.log(CASTOR_LOG_WARN, warning);
  CASTOR_TRY(p.attach(choice));
  p.versions = WeightVersions(p.adapter->params());
  p.lent_for_writing = LentForWriting(p.adapter->params());
  CASTOR_TRY(p.folders.check(*p.strategy));
  if (p.folders.resumes()) CASTOR_TRY(p.load());
  return parts;
}

}  // namespace

Result<Session> boost(std::shared_ptr<torch::nn::Module> model, const StrategyChoice& choice,
                      const Optimizer& optimizer, SessionOptions options) {
  if (!model) return Error{ErrorKind::usage, "there is no model: the pointer is null"};
  const auto make_adapter = [&model](AdapterOptions settings) {
    const auto params = model->parameters();
    const c10::Device device = device_of(params.empty() ? nullptr : &params.front());
    return TorchAdapter::make(model, device, std::move(settings));
  };
  CASTOR_ASSIGN(auto parts, make_parts(make_adapter, choice, optimizer, std::move(options)));
  return Session(std::move(parts));
}

Result<Session> boost(const ModelParts& model, const StrategyChoice& choice, const Optimizer& optimizer,
                      SessionOptions options) {
  const auto make_adapter = [&model](AdapterOptions settings) {
    const c10::Device device = device_of(model.params.empty() ? nullptr : &model.params.front().second);
    return TorchAdapter::make(model, device, std::move(settings));
  };
  CASTOR_ASSIGN(auto parts, make_parts(make_adapter, choice, optimizer, std::move(options)));
  return Session(std::move(parts));
}

Result<c10::Device> open_gpu(int ordinal, std::optional<std::uint64_t> device_budget) {
  if (!torch_has_cuda())
    return Error{ErrorKind::failed,
                 "no GPU for LibTorch: its build " + torch_build_tag() +
                     " cannot use one; build Castor against a CUDA build of torch, or use `device` cpu",
                 "device"};
  CASTOR_ASSIGN(const auto device, make_cuda_device(ordinal));
  const std::uint64_t total_bytes = device->total_memory_bytes();
  CASTOR_TRY(configure_device_allocator(device_budget.value_or(total_bytes), total_bytes));
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(ordinal));
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/dl_dtype.h>
#include <castor/plugins/torch/estimate.h>
#include <castor/plugins/torch/estimate_recorded.h>

#include <castor/engine/run_forecast.h>
#include <castor/gemini/gemini_options.h>
#include <castor/plugins/step_args.h>
#include <castor/plugins/torch/record_step.h>

#include "training_facts.h"

#include <algorithm>

namespace castor {
namespace {

/// The options of the plugin that boost would attach.
Result<EngineOptions> options_of(const PluginByName& named, const TrainingFacts& facts) {
  castor_plugin_info info = {};
  info.name = "gemini";
  info.options = gemini_schema().data(), info.n_options = static_cast<std::uint32_t>(gemini_schema().size());
  CASTOR_ASSIGN(const PluginOptions options, with_facts(named.options, info, facts));
  return engine_options(options);
}

/// The scale that fp16 begins with makes a step need the norm, as clipping does.
bool is_scaled(const RecordedStep& step, const SessionOptions& options) {
  const auto narrow = [](const RecordedStep::Param& param) { return is_fp16(param.dtype); };
  return options.scaler || std::any_of(step.params.begin(), step.params.end(), narrow);
}

}  // namespace

Result<bool> keeps_inputs(const PluginByName& plugin) {
  CASTOR_ASSIGN(const EngineOptions engine, options_of(plugin, {}));
  return engine.offload_activations;
}

Result<Forecast> estimate(RecordedStep step, const PluginByName& plugin, const Optimizer& optimizer,
                          const ForecastMachine& machine, const SessionOptions& options) {
  CASTOR_TRY(check_micro_batches(options));
  castor_step_args args = step_args(optimizer);
  args.max_norm = options.max_norm, args.max_value = options.max_value;
  CASTOR_ASSIGN(const EngineOptions engine, options_of(plugin, training_facts(args, options)));
  if (is_scaled(step, options)) args.loss_scale = options.scaler.value_or(GradScalerOptions{}).initial_scale;
  CASTOR_TRY(check_step_args(args, static_cast<std::uint32_t>(step.params.size())));
  step.repeat(static_cast<std::uint32_t>(options.micro_batches));
  return forecast(step, engine, machine, args);
}

Result<Forecast> estimate(std::shared_ptr<torch::nn::Module> model, const std::function<at::Tensor()>& loss,
                          const Gemini& plugin, const Optimizer& optimizer, const ForecastMachine& machine,
                          const SessionOptions& options) {
  if (!model) return Error{ErrorKind::usage, "there is no model: the pointer is null"};
  CASTOR_TRY(check_micro_batches(options));
  CASTOR_ASSIGN(const PluginByName named, by_name(plugin));
  CASTOR_ASSIGN(const bool takes_inputs, keeps_inputs(named));
  const RecordingOptions recording{.is_unit = options.is_unit, .keeps_inputs = takes_inputs};
  CASTOR_ASSIGN(RecordedStep step, record_step(std::move(model), loss, recording));
  return estimate(std::move(step), named, optimizer, machine, options);
}

}  // namespace castor

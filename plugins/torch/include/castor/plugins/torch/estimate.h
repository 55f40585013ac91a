// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/session.h>

#include <castor/engine/forecast.h>

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace castor {

/// The resources and the time that the training of boost(model, plugin, optimizer, options) takes on `machine`, which
/// need not be this one.
///
/// `model` is on LibTorch's meta device, where it takes no memory (OnMeta makes one there), and `loss` computes the loss
/// of one micro-batch there. One step is recorded (record_step.h), and the plugin's engine trains it in virtual time
/// (run_forecast.h), with all its decisions. The folders of `plugin` are not opened.
/// Cost: seconds for 70 B parameters. Errors: those of record_step and of forecast, among them does_not_fit with the
/// budget that would do; usage, where options are refused as by boost.
Result<Forecast> estimate(std::shared_ptr<torch::nn::Module> model, const std::function<at::Tensor()>& loss,
                          const Gemini& plugin, const Optimizer& optimizer, const ForecastMachine& machine = {},
                          const SessionOptions& options = {});

}  // namespace castor

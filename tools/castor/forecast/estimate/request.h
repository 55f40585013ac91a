// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include <castor/engine/forecast.h>
#include <castor/engine/recorded_step.h>
#include <castor/memory/dtype.h>
#include <castor/training/optimizer.h>
#include <castor/training/strategy_choice.h>

namespace castor::estimates {

/// A model by name, and the step that it makes.
struct ModelChoice {
  std::string name;
  DType precision = DType::bf16;  ///< of weights and activations
  std::uint64_t batch = 8;        ///< samples
  std::uint64_t seq = 1024;       ///< tokens of a sample of text
  bool recompute = false;
};

/// The model and the machine that is to train it.
struct Request {
  ModelChoice model;
  Gemini plugin;
  Optimizer optimizer;
  double max_norm = 0;
  ForecastMachine machine;
};

/// The facts of a model that no forecast changes.
struct ModelFacts {
  std::uint64_t n_params = 0;
  std::uint64_t n_counted = 0;  ///< tokens of a step, or the samples of a model that reads none
  bool reads_text = true;
  std::size_t n_tensors = 0;  ///< parameters
};

/// Builds the model without memory and forecasts its training. `facts` are set as soon as the model is built; then
/// `on_built` is called. Errors: those of make_model and of castor::estimate; failed in a build without LibTorch.
Result<Forecast> estimate_model(const Request& request, ModelFacts& facts, const std::function<void()>& on_built);

/// The step of the model. Errors: those of make_model; failed in a build without LibTorch.
Result<RecordedStep> record_model(const ModelChoice& choice);

/// For people: the names of the models, one family per line. Empty in a build without LibTorch.
std::string model_names_in_lines();

}  // namespace castor::estimates

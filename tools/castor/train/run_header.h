// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>
#include <castor/plugins/grad_scaler.h>

#include "train/model_params.h"

namespace castor::train {

/// The state of a run that a checkpoint holds beside the parameters.
struct RunState {
  std::int64_t n_steps = 0;  ///< completed; the batches of a step follow from its number and the seed
  std::optional<DynamicGradScaler::State> scaler;
};

/// The trained model and its optimizer.
struct Trained {
  std::string model;
  castor_optimizer optimizer = CASTOR_ADAMW;
};

/// The header of a checkpoint: the model's name, its parameters, the kind of their moments, and the state of the run.
nlohmann::json run_header(const Trained& trained, const ModelParams& params, const RunState& run);

/// Parses `text` as such a header; keeps its other fields. Errors: usage if it is no header, `params` are not the
/// model's, or the moments are not those of the optimizer; the caller puts the folder's name before the message.
Result<nlohmann::json> read_run_header(const std::string& text, const Trained& trained,
                                       const ModelParams& params);

/// Requires: a header from read_run_header.
RunState run_of(const nlohmann::json& header);

}  // namespace castor::train

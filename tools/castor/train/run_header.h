// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>
#include <castor/plugins/grad_scaler.h>

namespace castor::train {

/// What of a run a checkpoint holds beside the parameters.
struct RunState {
  std::int64_t n_steps = 0;  ///< that have ended; the batches of a step follow from its number and the seed
  std::optional<DynamicGradScaler::State> scaler;
};

/// What is trained, and by what.
struct Trained {
  std::string model;
  castor_optimizer optimizer = CASTOR_ADAMW;
};

/// What a checkpoint says of itself: the model's name, its parameters, whose moments they have, and the state of the run.
nlohmann::json run_header(const Trained& trained, const std::vector<castor_param_info>& params, const RunState& run);

/// `text` as such a header, with what else it holds. Errors: usage, where it is none, `params` are not the model's, or the
/// moments are not those of the optimizer; the message follows on the folder's name.
Result<nlohmann::json> read_run_header(const std::string& text, const Trained& trained,
                                       const std::vector<castor_param_info>& params);

/// Requires: a header that was read.
RunState run_of(const nlohmann::json& header);

}  // namespace castor::train

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

#include <castor/memory/result.h>
#include <castor/training/model_params.h>
#include <castor/training/run_state.h>

#include "value_order.h"

namespace castor {

/// The header of a checkpoint: the model's name, its parameters, the kind of their moments, and the state of the run.
nlohmann::json run_header(const Trained& trained, const ModelParams& params, const RunState& run);

/// What a header says.
struct RunHeader {
  RunState run;
  ValueOrders orders;                             ///< in which the values of each parameter come
  IndexedVector<ParamId, std::uint64_t> updates;  ///< of each parameter; 0 where a strategy has committed
};

/// Parses `text`, from the checkpoint in `folders`, as such a header, with the field `updates` that a Checkpoint adds.
/// Errors: usage if it is no header, `params` are not the model's, or the moments are not those of the optimizer; io if
/// it is damaged.
Result<RunHeader> read_run_header(const std::string& folders, const std::string& text, const Trained& trained,
                                  const ModelParams& params);

/// Usage: `folders` hold none.
Error no_checkpoint(const std::string& folders);

/// `why`, about the checkpoint in `folders`, as one sentence.
std::string about_checkpoint(const std::string& folders, const std::string& why);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/session.h>

#include <castor/engine/forecast.h>
#include <castor/engine/recorded_step.h>

namespace castor {

/// estimate() of a step that was recorded. `plugin`: gemini, with its options.
Result<Forecast> estimate(RecordedStep step, const PluginByName& plugin, const Optimizer& optimizer,
                          const ForecastMachine& machine = {}, const SessionOptions& options = {});
/// Whether a plugin with these options takes the inputs of recomputed parts (RecordingOptions::keeps_inputs).
Result<bool> keeps_inputs(const PluginByName& plugin);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/engine/engine_options.h>
#include <castor/engine/forecast.h>
#include <castor/engine/recorded_step.h>
#include <castor/memory/result.h>
#include <castor/plugins/abi.h>

namespace castor {

/// Trains the recorded step on `machine` until its step time is known: the engine of the gemini plugin itself, whose
/// memory is addresses alone and whose time is virtual, warm-up, plans and trials included. No byte of the model is
/// allocated.
///
/// `options` are the plugin's; of `nvme_folders` only counts whether there are any, and `args` is the optimizer's step.
/// Copies and updates at the same time slow one another down as on an H200 where states are streamed.
/// Cost: some 20 steps of the mover, and up to six plans. Errors: those of the engine, among them does_not_fit with the
/// budget that would do.
Result<Forecast> forecast(const RecordedStep& step, const EngineOptions& options, const ForecastMachine& machine,
                          const castor_step_args& args);

}  // namespace castor

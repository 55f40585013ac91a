// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/plugins/booster.h>
#include <castor/plugins/strategy.h>

#include "train/report.h"
#include "train/run_header.h"

namespace castor::train {

/// Has `strategy` make its own folders the checkpoint of the run: what lies there is referenced, the rest written.
/// Errors: those of Strategy::commit; then the last one stands.
Result<SavedBytes> commit_run(const Trained& trained, ModelHost& model, Strategy& strategy, const RunState& run);

/// Has `strategy` go on from the run in its own folders, which the user calls `folders`. Errors: usage, where they hold
/// none or that of another model or optimizer; those of Strategy::restore.
Result<RunState> restore_run(const std::string& folders, const Trained& trained, ModelHost& model, Strategy& strategy);

}  // namespace castor::train

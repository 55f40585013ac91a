// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/plugins/booster.h>
#include <castor/plugins/strategy.h>
#include <castor/training/run_state.h>

namespace castor {

/// Makes `strategy` commit its own folders as the checkpoint of the run: bytes there already are referenced, the rest
/// is written. Errors: those of Strategy::commit; then the last checkpoint stays valid.
Result<SavedBytes> commit_run(const Trained& trained, ModelHost& model, Strategy& strategy, const RunState& run);

/// Makes `strategy` continue the run in its own folders; messages call them `folders`. Errors: usage if they hold no
/// checkpoint or one of another model or optimizer; those of Strategy::restore.
Result<RunState> restore_run(const std::string& folders, const Trained& trained, ModelHost& model, Strategy& strategy);

}  // namespace castor

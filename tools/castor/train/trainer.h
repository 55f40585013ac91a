// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "train/options/options.h"
#include "train/report.h"

namespace castor::train {

/// The callbacks of a run.
struct TrainObserver {
  std::function<bool()> interrupted;  ///< called at every unit; true ends the run with an error of kind interrupted
  std::function<void(const TrainRecord&)> after_step;
  std::function<void(std::int64_t n_steps, const SavedBytes&)> after_save;
  std::function<void(const std::string& warning)> warn;   ///< called from threads of the strategy too
  std::function<void(const std::string& sentence)> tell;  ///< the same
};

/// Trains as `options` say and fills `record` on the way, also for a run that fails, with its completed steps.
///
/// Order: every error in the request is reported before the first parameter gets memory. The plugin's strategy and all
/// its memory are released before this returns. Threads: blocks the calling thread.
/// Errors: of every kind, one sentence.
Result<void> run_training(const TrainOptions& options, const TrainObserver& observer, TrainRecord& record);

}  // namespace castor::train

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "train/report.h"

namespace castor::train {

/// The progress line of a run: rewritten in place on a terminal, otherwise a new line now and then.
class Progress {
 public:
  /// `stream` is borrowed; `n_steps` is the total of the run.
  Progress(std::ostream& stream, bool in_place, std::int64_t n_steps)
      : stream_(stream), in_place_(in_place), n_steps_(n_steps) {}

  /// Shows the state after a step if a line is due: on a terminal every 0.1 s, otherwise every 10 steps or 2 s, and
  /// always for the first and the last step. `now_s` is any steady clock.
  void update(const TrainRecord& record, double now_s);
  /// Shows `line` on a line of its own; later output goes below it.
  void note(const std::string& line);
  /// Ends a line that was rewritten in place, so that later output goes below it.
  void finish();

 private:
  bool due(std::int64_t step, double now_s) const;

  std::ostream& stream_;
  const bool in_place_;
  const std::int64_t n_steps_;
  std::int64_t last_step_ = 0;
  double last_s_ = 0;
  bool line_open_ = false;
};

/// `step 12/100  loss 2.3456  8100 tokens/s  device 12.0 MiB of 64.0 MiB  host 30.0 MiB`; leaves out tiers that are
/// empty and have no budget.
std::string progress_line(const TrainRecord& record, std::int64_t n_steps);

/// `saved after step 40: 12.0 MiB written, 46.2 MiB referenced`; leaves out the latter if it is 0.
std::string saved_line(std::int64_t n_steps, const SavedBytes& saved);

}  // namespace castor::train

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "train/report.h"

namespace castor::train {

/// The line that shows how a run goes: rewritten in place on a terminal, else one line now and then.
class Progress {
 public:
  /// `stream` is borrowed; `n_steps` is what the run will have.
  Progress(std::ostream& stream, bool in_place, std::int64_t n_steps)
      : stream_(stream), in_place_(in_place), n_steps_(n_steps) {}

  /// Shows the state after a step if it is time to: on a terminal every 0.1 s, else every 10 steps or 2 s, and always
  /// the first and the last step. `now_s` is any steady clock.
  void update(const TrainRecord& record, double now_s);
  /// Shows `line`, and what follows below it.
  void note(const std::string& line);
  /// Ends a line that was rewritten in place, so that what follows stands below it.
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

/// `step 12/100  loss 2.3456  8100 tokens/s  device 12.0 MiB of 64.0 MiB  host 30.0 MiB`: tiers that are empty and
/// without budget are left out.
std::string progress_line(const TrainRecord& record, std::int64_t n_steps);

/// `saved after step 40: 12.0 MiB written, 46.2 MiB referenced`: the latter is left out where nothing was.
std::string saved_line(std::int64_t n_steps, const SavedBytes& saved);

}  // namespace castor::train

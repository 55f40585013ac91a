// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <limits>
#include <string>
#include <utility>

#include "train/report.h"

namespace castor::train {

/// Where progress is shown.
struct ProgressPlace {
  bool in_place = false;                           ///< on a terminal that can rewrite a line
  std::function<std::size_t()> columns = nullptr;  ///< its width now; null: lines may be of any length
  /// Whether it takes a line now: a run must not wait for a reader that is paused. Null: always.
  std::function<bool()> takes_line = nullptr;
};

/// Standard error: of a terminal its width, and whether TERM says that it can rewrite a line.
ProgressPlace standard_error();

/// The progress line of a run: rewritten in place on a terminal, otherwise a new line now and then.
class Progress {
 public:
  /// `stream` is borrowed; `n_steps` is the total of the run.
  Progress(std::ostream& stream, ProgressPlace place, std::int64_t n_steps)
      : stream_(stream), place_(std::move(place)), n_steps_(n_steps) {}

  /// Shows the state after a step if a line is due: on a terminal every 0.1 s, otherwise every 10 steps or 2 s, and
  /// always for the first and the last step; but nothing while the reader takes no line. `now_s` is any steady clock.
  void update(const TrainRecord& record, double now_s);
  /// Shows `line` on a line of its own, once the reader takes one; later output goes below it.
  void note(const std::string& line);
  /// Ends a line that was rewritten in place, so that later output goes below it.
  void finish();

 private:
  bool due(std::int64_t step, double now_s) const;
  bool takes_line() const { return !place_.takes_line || place_.takes_line(); }

  std::ostream& stream_;
  const ProgressPlace place_;
  const std::int64_t n_steps_;
  std::int64_t last_step_ = 0;
  double last_s_ = 0;
  bool line_open_ = false;
  std::string waiting_;  ///< lines of note() that the reader has not taken
};

/// `step 12/100  loss 2.3456  8100 tokens/s  device 12.0 MiB of 64.0 MiB  host 30.0 MiB`; leaves out tiers that are
/// empty and have no budget. A line of more than `columns` loses tiers first, then what stands before them.
std::string progress_line(const TrainRecord& record, std::int64_t n_steps,
                          std::size_t columns = std::numeric_limits<std::size_t>::max());

/// `saved after step 40: 12.0 MiB written, 46.2 MiB referenced`; leaves out the latter if it is 0.
std::string saved_line(std::int64_t n_steps, const SavedBytes& saved);

}  // namespace castor::train

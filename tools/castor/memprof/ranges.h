// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace.h"

namespace castor::memprof {

/// A stretch of time.
struct Range {
  std::int64_t start_ns = 0, end_ns = 0;
  std::int64_t length() const { return end_ns - start_ns; }
};

/// Where any of `ranges` is: ascending, apart from each other, none of no length.
std::vector<Range> unite(std::vector<Range> ranges);

/// The sum of the lengths.
std::int64_t length_ns(const std::vector<Range>& ranges);

/// How long both are. Requires: each as unite() returns it.
std::int64_t shared_ns(const std::vector<Range>& a, const std::vector<Range>& b);

/// The part of `range` that lies within `bounds`; of no length where none does.
Range clip(const Range& range, const Range& bounds);

/// From the first to the last event of the file.
Range whole_run(const Trace& trace);

/// What a picture of one step shows.
struct StepRange {
  Range range;
  bool one_step = false;  ///< false: the file does not say where steps end, and this is the whole run
};

/// The last step that is whole in the file. What was under way when the file was written is missing from it, so that is the
/// last step but one, where there are two: the work that a step leaves to others ends during the next.
StepRange last_whole_step(const Trace& trace);

}  // namespace castor::memprof

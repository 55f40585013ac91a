// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <castor/memprof/trace.h>

namespace castor::memprof {

/// An interval of time.
struct Range {
  std::int64_t start_ns = 0, end_ns = 0;
  std::int64_t length() const { return end_ns - start_ns; }
};

/// The union of `ranges`: ascending, disjoint, without empty ranges.
std::vector<Range> unite(std::vector<Range> ranges);

/// The sum of the lengths.
std::int64_t length_ns(const std::vector<Range>& ranges);

/// The length of the intersection. Requires: both as returned by unite().
std::int64_t shared_ns(const std::vector<Range>& a, const std::vector<Range>& b);

/// The part of `range` within `bounds`; an empty range if there is none.
Range clip(const Range& range, const Range& bounds);

/// From the first to the last event of the file.
Range whole_run(const Trace& trace);

/// The time that the picture of a step shows.
struct StepRange {
  Range range;
  bool one_step = false;  ///< false: the file has no step ends, and this is the whole run
};

/// The last step that is complete in the file. Work that was running when the file was written is missing from it, and
/// the work that a step defers ends during the next step, so this is the last step but one if there are two.
StepRange last_whole_step(const Trace& trace);

}  // namespace castor::memprof

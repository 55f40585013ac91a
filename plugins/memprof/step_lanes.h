// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <castor/memprof/trace.h>

#include "ranges.h"

namespace castor::memprof {

/// One drawn bar: a span, or several neighbours too narrow to be told apart.
struct Bar {
  Range range;  ///< within the step
  std::size_t row = 0;
  std::string kind;  ///< the phase, or the lane for spans without one; decides the colour
  std::string name;  ///< of the unit or chunk; "" if the bar is several spans
  std::size_t n_spans = 1;
  std::int64_t ns = 0;      ///< duration of its spans, including the parts outside the step
  std::uint64_t bytes = 0;  ///< moved by its spans
};

/// One lane of the picture of a step.
struct StepLane {
  std::string lane;
  std::size_t n_rows = 1;  ///< bars of one row follow each other, unless there are kMostRows
  std::vector<Bar> bars;
  std::int64_t busy_ns = 0;            ///< within the step
  std::int64_t beside_compute_ns = 0;  ///< the part of `busy_ns` during which a unit ran forward or backward
  double bytes = 0;                    ///< moved within the step: of a span that is partly outside, only its part
};

inline constexpr std::size_t kMostRows = 4;

/// The lanes of `step`; those in docs/trace.md are always included, even if nothing ran on them. Bars narrower than
/// `narrow_ns` with a smaller gap than that between them are merged.
std::vector<StepLane> step_lanes(const Trace& trace, const Range& step, std::int64_t narrow_ns);

/// The time ranges in which the model ran forward and backward, as far as the trace has them.
struct PhaseRange {
  Range range;
  std::string phase;
};
std::vector<PhaseRange> phases_of(const Trace& trace, const Range& step);

}  // namespace castor::memprof

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <castor/memory/clock.h>
#include <castor/memory/result.h>

#include "bench/common/shares.h"
#include "bench/common/stopped.h"

namespace castor::bench {

/// One way to do a piece of work repeatedly.
struct Way {
  std::string name;
  /// Does the work once; returns the bytes that count.
  std::function<Result<std::uint64_t>()> once;
  /// Prepares a run; may be empty.
  std::function<Result<void>()> begin = {};
};

/// A way that does the next of `parts` at each call, under the name of the first.
Way in_turn(std::vector<Way> parts);

/// Length of a run, and its clock.
struct Timing {
  double seconds = 1;
  Stopped stopped = [] { return false; };
  Clock now_ns = steady_now_ns;
};

/// One run: repeats the work until `timing.seconds` have passed, at least once. Errors: those of the way; interrupted.
Result<Sample> run_way(const Way& way, const Timing& timing);

/// The index of the fastest of `ways`. Each is tried twice, in turns, all within about `timing.seconds`; a single way
/// is not tried. Requires: at least one way. Errors: those of the ways; interrupted.
Result<std::size_t> fastest(const std::vector<Way>& ways, Timing timing);

}  // namespace castor::bench

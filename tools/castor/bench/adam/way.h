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

/// One way to do a piece of work that is done over and over.
struct Way {
  std::string name;
  /// Does it once; returns the bytes that count.
  std::function<Result<std::uint64_t>()> once;
  /// What has to be there before a run; nothing where it is empty.
  std::function<Result<void>()> begin = {};
};

/// The first of `parts` with its name; each time it is done the next of them is.
Way in_turn(std::vector<Way> parts);

/// How long runs are, and by which clock.
struct Timing {
  double seconds = 1;
  Stopped stopped = [] { return false; };
  Clock now_ns = steady_now_ns;
};

/// One run: the work is done until `timing.seconds` have passed, at least once. Errors: those of the way; interrupted.
Result<Sample> run_way(const Way& way, const Timing& timing);

/// The place of the fastest of `ways`. Each is tried twice, in turns, all within about `timing.seconds`; a single one not
/// at all. Requires: at least one. Errors: those of the ways; interrupted.
Result<std::size_t> fastest(const std::vector<Way>& ways, Timing timing);

}  // namespace castor::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/adam/options.h"
#include "bench/common/figure.h"

namespace castor::bench {

/// The counterpart that an update is compared with.
enum class Match {
  bare,              ///< the host's update by a team: the bare loop with the same bytes
  bare_in_parts,     ///< the host's loop on parts that the threads take in turn: the bare loop
  torch,             ///< torch's fused AdamW alone
  torch_with_casts,  ///< torch's fused AdamW and the casts that the same work needs
  device_copy,       ///< the GPU's update: a copy inside its memory
  busy_bus,          ///< the host's update while the bus copies both ways: the bare loop beside the same copies
};

struct AdamCase {
  Match match = Match::bare;
  unsigned n_threads = 0;  ///< 0 if the case has no number of its own
};

/// The cases of `options`, grouped by number of threads.
std::vector<AdamCase> plan_adam_cases(const AdamBenchOptions& options, bool has_torch);

/// Numbers of host threads to try beside a busy bus: with some cores left free the total may be faster.
std::vector<unsigned> threads_beside_bus(const AdamBenchOptions& options);

/// A number of elements without rounding: `16Ki`, `1000`.
std::string exact_count(std::uint64_t n);

/// The figure of a case before its rounds are measured: name, unit and bar.
Figure figure_of(const AdamCase& one, const AdamBenchOptions& options);

}  // namespace castor::bench

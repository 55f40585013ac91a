// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/result.h>

#include "cli/cli.h"

namespace castor::bench {

/// Reads two options that every benchmark has: --runs, 1 to 1000, and --seconds of each run, 0.01 to 3600.
/// Errors: usage, naming the option and the values it accepts.
Result<void> read_run_length(const cli::Values& values, unsigned& runs, double& seconds);

}  // namespace castor::bench

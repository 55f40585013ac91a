// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/result.h>

#include "cli/cli.h"

namespace castor::bench {

/// What every benchmark takes: --runs, 1 to 1000, and --seconds of each, 0.01 to 3600.
/// Errors: usage, naming the option and what it takes.
Result<void> read_run_length(const cli::Values& values, unsigned& runs, double& seconds);

}  // namespace castor::bench

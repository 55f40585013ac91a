// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/cli.h"
#include "cli/output.h"

namespace castor::bench {

/// `castor bench io`: reads the arguments after `io`, writes the results to `output`, returns the exit code.
int run_io(const cli::Arguments& arguments, cli::Output& output);
/// `castor bench adam` and `castor bench step`, likewise.
int run_adam(const cli::Arguments& arguments, cli::Output& output);
int run_step(const cli::Arguments& arguments, cli::Output& output);

}  // namespace castor::bench

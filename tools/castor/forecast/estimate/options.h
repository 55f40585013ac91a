// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/cli.h"
#include "forecast.h"

namespace castor::estimate {

cli::CommandSyntax estimate_syntax();

/// Checks the values of the options. Errors: usage, naming the option and the values it accepts.
Result<Request> read_request(const cli::Values& values);

}  // namespace castor::estimate

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/cli.h"
#include "forecast.h"

namespace castor::estimate {

cli::CommandSyntax estimate_syntax();

/// Checks what was given. Errors: usage, naming the option and what it takes.
Result<Request> read_request(const cli::Values& values);

}  // namespace castor::estimate

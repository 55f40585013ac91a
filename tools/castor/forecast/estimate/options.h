// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/cli.h"
#include "request.h"

namespace castor::estimates {

cli::CommandSyntax estimate_syntax();

/// Checks the values of the options, but for the model's name. Errors: usage, naming the option and the values it
/// accepts.
Result<Request> read_request(const cli::Values& values);

}  // namespace castor::estimates

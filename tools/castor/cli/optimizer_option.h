// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/plugins/abi.h>
#include <castor/rules/state_format.h>

#include "cli.h"

namespace castor::cli {

/// All names, as `--help` shows them: adamw|adam|sgd|lars|lamb.
std::string optimizer_names();

/// Reads --optimizer and --moments. Errors: usage if either is unknown or the optimizer does not have these moments.
Result<void> read_optimizer(const Values& values, castor_optimizer& optimizer, MomentFormat& moments);

}  // namespace castor::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <castor/plugins/abi.h>
#include <castor/training/param_groups.h>

#include "cli/cli.h"

namespace castor::train {

/// Reads `SELECTOR:lr=X,betas=X/Y,eps=X,weight_decay=X,momentum=X,trust_coefficient=X` with at least one value. Errors:
/// usage, also for a value that `optimizer` does not have.
Result<ParamGroup> read_group(const std::string& text, castor_optimizer optimizer = CASTOR_ADAMW);

/// Reads every --group, in the order given. Errors: those of read_group.
Result<void> read_groups(const cli::Values& values, castor_optimizer optimizer, std::vector<ParamGroup>& groups);

}  // namespace castor::train

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <castor/plugins/abi.h>

#include "cli/cli.h"

namespace castor::train {

/// The content of one --group. A value that it leaves out is that of ungrouped parameters.
struct GroupOption {
  std::string selector;  ///< a glob over the names of parameters, or kVectors
  std::optional<double> lr, eps, weight_decay, momentum, trust_coefficient;
  std::optional<std::pair<double, double>> betas;
};

/// Selects the parameters of fewer than two dimensions: biases and norms.
inline constexpr const char* kVectors = "vectors";

/// Reads `SELECTOR:lr=X,betas=X/Y,eps=X,weight_decay=X,momentum=X,trust_coefficient=X` with at least one value. Errors:
/// usage, also for a value that `optimizer` does not have.
Result<GroupOption> read_group(const std::string& text, castor_optimizer optimizer = CASTOR_ADAMW);

/// Reads every --group, in the order given. Errors: those of read_group.
Result<void> read_groups(const cli::Values& values, castor_optimizer optimizer, std::vector<GroupOption>& groups);

}  // namespace castor::train

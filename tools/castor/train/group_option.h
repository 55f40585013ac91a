// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <castor/plugins/abi.h>

#include "cli/cli.h"

namespace castor::train {

/// What one --group says. What it leaves out is as without groups.
struct GroupOption {
  std::string selector;  ///< a glob over the names of parameters, or kVectors
  std::optional<double> lr, eps, weight_decay, momentum, trust_coefficient;
  std::optional<std::pair<double, double>> betas;
};

/// Selects the parameters of fewer than two dimensions: biases and norms.
inline constexpr const char* kVectors = "vectors";

/// Reads `SELECTOR:lr=X,betas=X/Y,eps=X,weight_decay=X,momentum=X,trust_coefficient=X`, of which one value at least is there. Errors: usage,
/// among others where `optimizer` has no such value.
Result<GroupOption> read_group(const std::string& text, castor_optimizer optimizer = CASTOR_ADAMW);

/// Every --group, in the order given. Errors: those.
Result<void> read_groups(const cli::Values& values, castor_optimizer optimizer, std::vector<GroupOption>& groups);

}  // namespace castor::train

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/rules/state_format.h>
#include <castor/plugins/abi.h>

#include "cli.h"

namespace castor::cli {

/// The name that --optimizer uses.
std::string name(castor_optimizer optimizer);
/// All names, as `--help` shows them: adamw|adam|sgd|lars|lamb.
std::string optimizer_names();

/// The family whose moments the optimizer keeps: adam for Adam, AdamW and LAMB, which can continue from each other's;
/// otherwise its own name.
std::string states_of(castor_optimizer optimizer);
/// Whether those are two moments.
bool keeps_exp_avg_sq(castor_optimizer optimizer);
/// Whether it has a momentum option: SGD and LARS.
bool has_momentum(castor_optimizer optimizer);
/// Whether it scales each tensor by its norms: LARS and LAMB.
bool has_trust_ratios(castor_optimizer optimizer);
/// Whether it also has a trust coefficient option: LARS.
bool has_trust_coefficient(castor_optimizer optimizer);

/// Reads --optimizer and --moments. Errors: usage if either is unknown or the optimizer does not have these moments.
Result<void> read_optimizer(const Values& values, castor_optimizer& optimizer, MomentFormat& moments);

}  // namespace castor::cli

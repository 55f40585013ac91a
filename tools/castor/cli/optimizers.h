// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/rules/state_format.h>
#include <castor/plugins/abi.h>

#include "cli.h"

namespace castor::cli {

/// As --optimizer spells it.
std::string name(castor_optimizer optimizer);
/// All of them, as `--help` shows them: adamw|adam|sgd|lars|lamb.
std::string optimizer_names();

/// Whose moments the optimizer keeps: adam of Adam, AdamW and LAMB, which go on from each other's; else its own name.
std::string states_of(castor_optimizer optimizer);
/// Whether those are two.
bool keeps_exp_avg_sq(castor_optimizer optimizer);
/// Whether it has momentum of its own option: SGD and LARS.
bool has_momentum(castor_optimizer optimizer);
/// Whether it scales each tensor by its norms: LARS and LAMB.
bool has_trust_ratios(castor_optimizer optimizer);
/// Whether by a share of its own option too: LARS.
bool has_trust_coefficient(castor_optimizer optimizer);

/// Reads --optimizer and --moments. Errors: usage, where one is none or the moments are not of that optimizer.
Result<void> read_optimizer(const Values& values, castor_optimizer& optimizer, AdamMoments& moments);

}  // namespace castor::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/memory/result.h>

namespace castor {

/// The option that limits `tier`: device_budget, host_budget or nvme_budget.
const char* budget_option(Tier tier);

/// The error of a tier that has less room than is needed. `option`: the one to change, empty where no option helps.
Error does_not_fit(const Shortage& shortage, std::string message, std::string option);
/// The same, where the tier's budget is to be raised.
Error does_not_fit(const Shortage& shortage, std::string message);

}  // namespace castor

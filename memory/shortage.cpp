// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/shortage.h>

#include <utility>

namespace castor {

const char* budget_option(Tier tier) {
  switch (tier) {
    case Tier::device: return "device_budget";
    case Tier::host: return "host_budget";
    case Tier::nvme: return "nvme_budget";
  }
  throw ContractViolation("Tier holds no tier");
}

Error does_not_fit(const Shortage& shortage, std::string message, std::string option) {
  return {ErrorKind::does_not_fit, std::move(message), std::move(option), shortage};
}

Error does_not_fit(const Shortage& shortage, std::string message) {
  return does_not_fit(shortage, std::move(message), budget_option(shortage.tier));
}

}  // namespace castor

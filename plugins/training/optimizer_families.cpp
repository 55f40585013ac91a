// SPDX-License-Identifier: Apache-2.0
#include <castor/training/optimizer_families.h>

#include <castor/memory/result.h>

namespace castor {

std::string name(castor_optimizer optimizer) {
  switch (optimizer) {
    case CASTOR_ADAM: return "adam";
    case CASTOR_ADAMW: return "adamw";
    case CASTOR_SGD: return "sgd";
    case CASTOR_LARS: return "lars";
    case CASTOR_LAMB: return "lamb";
  }
  throw ContractViolation("optimizer " + std::to_string(static_cast<int>(optimizer)));
}

bool has_momentum(castor_optimizer optimizer) { return optimizer == CASTOR_SGD || optimizer == CASTOR_LARS; }

bool has_trust_ratios(castor_optimizer optimizer) { return optimizer == CASTOR_LARS || optimizer == CASTOR_LAMB; }

bool has_trust_coefficient(castor_optimizer optimizer) { return optimizer == CASTOR_LARS; }

bool keeps_exp_avg_sq(castor_optimizer optimizer) { return !has_momentum(optimizer); }

std::string states_of(castor_optimizer optimizer) { return keeps_exp_avg_sq(optimizer) ? "adam" : name(optimizer); }

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>

#include <castor/plugins/abi.h>

namespace castor {

inline constexpr std::array<castor_optimizer, 5> kOptimizers = {CASTOR_ADAMW, CASTOR_ADAM, CASTOR_SGD, CASTOR_LARS,
                                                                CASTOR_LAMB};

/// adamw, adam, sgd, lars or lamb. Requires: one of these (ContractViolation).
std::string name(castor_optimizer optimizer);
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

}  // namespace castor

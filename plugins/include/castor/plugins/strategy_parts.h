// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <castor/plugins/strategy.h>

namespace castor {

// Pieces that strategies in C++ have in common.

/// The tickets of a strategy whose steps are decided when begin_step returns.
class StepTickets {
 public:
  /// The ticket of a step that was just made.
  std::uint64_t add(bool skipped, double grad_norm);
  /// Errors: usage, for every step but the last.
  Result<castor_step_result> result_of(std::uint64_t ticket) const;

 private:
  std::uint64_t n_steps_ = 0;
  castor_step_result last_ = {};
};

/// `wanted` of a parameter of `numel` elements, with n as a number; `what` names them: "masters". Errors: usage, where
/// they are wanted in another form than fp32, or the parameter has no such values.
Result<castor_values> fp32_values(const castor_values& wanted, std::uint64_t numel, const char* what);

/// The masters that `wanted` asks for, of a parameter of `numel` elements, as a state to read. Errors: those of
/// fp32_values.
Result<castor_param_state> masters_of(const castor_values& wanted, std::uint64_t numel);

/// The error of reading or writing part of a gradient that the parameter `name` of `numel` elements does not have.
Error no_gradient(const std::string& name, std::uint64_t numel);

}  // namespace castor

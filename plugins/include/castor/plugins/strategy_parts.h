// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

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

/// The masters that `wanted` asks for, of a parameter of `numel` elements, as a state to read. Errors: usage, where they
/// are wanted in another form than fp32.
Result<castor_param_state> masters_of(const castor_values& wanted, std::uint64_t numel);

}  // namespace castor

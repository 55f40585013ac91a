// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/strategy_parts.h>

#include <algorithm>
#include <string>

namespace castor {

std::uint64_t StepTickets::add(bool skipped, double grad_norm) {
  last_ = {sizeof last_, skipped ? 1 : 0, grad_norm};
  return ++n_steps_;
}

Result<castor_step_result> StepTickets::result_of(std::uint64_t ticket) const {
  if (ticket == n_steps_ && ticket > 0) return last_;
  return Error{ErrorKind::usage, "the result of step " + std::to_string(ticket) + " was asked for, the last one is " +
                                     std::to_string(n_steps_)};
}

Result<castor_param_state> masters_of(const castor_values& wanted, std::uint64_t numel) {
  if (wanted.form != CASTOR_FP32) return Error{ErrorKind::usage, "masters are fp32; they are read as nothing else"};
  auto state = blank<castor_param_state>();
  state.param = wanted.param, state.first = wanted.first;
  state.n = wanted.n != CASTOR_ALL ? wanted.n : numel - std::min(numel, wanted.first);
  state.master = static_cast<float*>(wanted.data);
  return state;
}

}  // namespace castor

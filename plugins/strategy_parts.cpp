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

Result<void> OpenAccesses::check(const castor_access& access, std::size_t n_params) {
  if (access.mode != CASTOR_READ && access.mode != CASTOR_WRITE)
    return Error{ErrorKind::usage, "weights were acquired in mode " + std::to_string(access.mode) +
                                       "; it is CASTOR_READ or CASTOR_WRITE"};
  for (std::uint32_t i = 0; i < access.n; ++i)
    if (access.params[i] >= n_params)
      return Error{ErrorKind::usage, "the weights of parameter " + std::to_string(access.params[i]) +
                                         " were acquired; the model has " + std::to_string(n_params)};
  return {};
}

Result<void> OpenAccesses::find(const castor_access& access) const {
  if (std::ranges::find(open_, copy_of(access)) != open_.end()) return {};
  return Error{ErrorKind::usage, "weights of " + std::to_string(access.n) + " parameters were released to " +
                                     (access.mode == CASTOR_WRITE ? "write" : "read") +
                                     ", which were not acquired so; release takes the values of its acquire"};
}

void OpenAccesses::remove(const castor_access& access) { open_.erase(std::ranges::find(open_, copy_of(access))); }

namespace {

Result<castor_values> existing_values(const castor_values& wanted, std::uint64_t numel) {
  castor_values values = wanted;
  if (wanted.n == CASTOR_ALL) values.n = numel - std::min(numel, wanted.first);
  if (values.first <= numel && values.n <= numel - values.first) return values;
  return Error{ErrorKind::usage, "values " + std::to_string(values.first) + " to " +
                                     std::to_string(values.first + values.n) + " of parameter " +
                                     std::to_string(values.param) + " were asked for; it has " + std::to_string(numel)};
}

}  // namespace

Result<castor_values> fp32_values(const castor_values& wanted, std::uint64_t numel, const char* what) {
  if (wanted.form == CASTOR_FP32) return existing_values(wanted, numel);
  return Error{ErrorKind::usage, std::string(what) + " are fp32; they are read as nothing else"};
}

Result<castor_param_state> masters_of(const castor_values& wanted, std::uint64_t numel, bool opaque) {
  if (opaque && wanted.form != CASTOR_OWN)
    return Error{ErrorKind::usage, "parameter " + std::to_string(wanted.param) +
                                       " is opaque, so it has no masters; read its values as CASTOR_OWN"};
  CASTOR_ASSIGN(const castor_values values,
                opaque ? existing_values(wanted, numel) : fp32_values(wanted, numel, "masters"));
  auto state = blank<castor_param_state>();
  state.param = values.param, state.first = values.first, state.n = values.n;
  state.master = opaque ? nullptr : static_cast<float*>(values.data);
  state.opaque = opaque ? values.data : nullptr;
  return state;
}

Error opaque_is_read_only(const std::string& name) {
  return {ErrorKind::usage, "parameter " + name + " is opaque, so its values can be read and not written"};
}

Error no_gradient(const std::string& name, std::uint64_t numel) {
  return {ErrorKind::usage, "parameter " + name +
                                " has no gradient since the last step; it gets one by writing all its " +
                                std::to_string(numel) + " values"};
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "model_values.h"

#include <cmath>
#include <string>

namespace castor {
namespace {

/// Interval between progress messages while parameters are initialised.
constexpr std::uint64_t kProgressNs = 10'000'000'000;

StateValues values_of(const castor_param_state& state) {
  return {state.first, state.n, state.master, state.exp_avg, state.exp_avg_sq, state.n_updates};
}

}  // namespace

Result<void> ModelValues::initialise() {
  if (initialised_) return {};
  const castor_host_v1& host = rooms_.host;
  const auto fill = [&](TensorId tensor, std::uint64_t first, std::span<float> values) -> Result<void> {
    const castor_status status =
        host.init_param_range(host.self, number(rooms_.model.order[tensor]), first, values.size(), values.data());
    return status == CASTOR_OK ? Result<void>() : failed_by_host(status);
  };
  std::uint64_t last_ns = rooms_.timeline.now_ns();
  CASTOR_TRY(rooms_.optimizer->io().initialise(fill, [&](double share) {
    if (rooms_.timeline.now_ns() - last_ns < kProgressNs) return;
    last_ns = rooms_.timeline.now_ns();
    rooms_.log(CASTOR_LOG_INFO,
               "first values of the parameters: " + std::to_string(std::lround(100 * share)) + " %");
  }));
  initialised_ = true;
  return {};
}

Result<void> ModelValues::check(ParamId param) const {
  if (rooms_.model.params.contains(param)) return {};
  return Error{ErrorKind::usage, "parameter " + std::to_string(number(param)) + " was asked for, the model has " +
                                     std::to_string(rooms_.model.params.size())};
}

Result<void> ModelValues::read_master(ParamId param, float* out) {
  CASTOR_TRY(check(param));
  CASTOR_TRY(initialise());
  if (rooms_.model.params[param].empty()) return {};
  return rooms_.optimizer->io().read_master(rooms_.tensor_of(param), out);
}

/// A parameter without elements has no values, and its updates are not counted.
Result<void> ModelValues::read(castor_param_state& state) {
  const ParamId param{state.param};
  CASTOR_TRY(check(param));
  CASTOR_TRY(initialise());
  StateValues values = values_of(state);
  if (!rooms_.model.params[param].empty())
    CASTOR_TRY(rooms_.optimizer->io().read(rooms_.tensor_of(param), values));
  state.n_updates = values.n_updates;
  return {};
}

Result<void> ModelValues::write(const castor_param_state& state) {
  const ParamId param{state.param};
  CASTOR_TRY(check(param));
  CASTOR_TRY(initialise());
  if (rooms_.model.params[param].empty()) return {};
  return rooms_.optimizer->io().write(rooms_.tensor_of(param), values_of(state));
}

}  // namespace castor

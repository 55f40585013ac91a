// SPDX-License-Identifier: Apache-2.0
#include "model_values.h"

#include <cmath>
#include <span>
#include <string>

#include "engine_memory.h"

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
  const castor_host_v1& host = parts_.host;
  const auto fill = [&](TensorId tensor, std::uint64_t first, std::span<float> values) -> Result<void> {
    const castor_status status =
        host.init_param_range(host.self, number(parts_.model.order[tensor]), first, values.size(), values.data());
    return status == CASTOR_OK ? Result<void>() : failed_by_host(status);
  };
  std::uint64_t last_ns = parts_.timeline.now_ns();
  CASTOR_TRY(parts_.io.initialise(fill, [&](double share) {
    if (parts_.timeline.now_ns() - last_ns < kProgressNs) return;
    last_ns = parts_.timeline.now_ns();
    const std::string text = "first values of the parameters: " + std::to_string(std::lround(100 * share)) + " %";
    host.log(host.self, CASTOR_LOG_INFO, text.c_str());
  }));
  initialised_ = true;
  return {};
}

Result<void> ModelValues::check(ParamId param) const {
  if (parts_.model.params.contains(param)) return {};
  return Error{ErrorKind::usage, "parameter " + std::to_string(number(param)) + " was asked for, the model has " +
                                     std::to_string(parts_.model.params.size())};
}

Result<void> ModelValues::read_master(ParamId param, float* out) {
  CASTOR_TRY(check(param));
  CASTOR_TRY(initialise());
  const auto tensor = parts_.place_of[param];
  return tensor ? parts_.io.read_master(*tensor, out) : Result<void>();
}

/// A parameter without elements has no values, and its updates are not counted.
Result<void> ModelValues::read(castor_param_state& state) {
  const ParamId param{state.param};
  CASTOR_TRY(check(param));
  CASTOR_TRY(initialise());
  StateValues values = values_of(state);
  if (const auto tensor = parts_.place_of[param]) CASTOR_TRY(parts_.io.read(*tensor, values));
  state.n_updates = values.n_updates;
  return {};
}

Result<void> ModelValues::write(const castor_param_state& state) {
  const ParamId param{state.param};
  CASTOR_TRY(check(param));
  CASTOR_TRY(initialise());
  const auto tensor = parts_.place_of[param];
  return tensor ? parts_.io.write(*tensor, values_of(state)) : Result<void>();
}

}  // namespace castor

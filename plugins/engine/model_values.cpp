// SPDX-License-Identifier: Apache-2.0
#include "model_values.h"

#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "engine_memory.h"

namespace castor {
namespace {

/// Interval between progress messages while parameters are initialised.
constexpr std::uint64_t kProgressNs = 10'000'000'000;

StateValues values_of(const castor_param_state& state, const ParamShape& param) {
  const std::uint64_t each = param.elements_a_value;
  if (param.is_opaque())
    return {.first = each * state.first, .n = each * state.n, .bytes = static_cast<std::byte*>(state.opaque)};
  return {state.first, state.n, state.master, state.exp_avg, state.exp_avg_sq, state.n_updates};
}

}  // namespace

Result<void> ModelValues::initialise() {
  if (initialised_) return {};
  ModelHost& host = parts_.host;
  StateIo::Fill fill;
  fill.fp32 = [&](TensorId tensor, std::uint64_t first, std::span<float> values) {
    const std::uint32_t param = number(parts_.model.order[tensor]);
    return host.first_values({sizeof(castor_values), param, first, values.size(), CASTOR_FP32, values.data()});
  };
  fill.bytes = [&](TensorId tensor, std::uint64_t first, std::span<std::byte> values) {
    const ParamId param = parts_.model.order[tensor];
    const std::uint64_t each = parts_.model.params[param].elements_a_value;
    return host.first_values(
        {sizeof(castor_values), number(param), first / each, values.size() / each, CASTOR_OWN, values.data()});
  };
  std::uint64_t last_ns = parts_.timeline.now_ns();
  CASTOR_TRY(parts_.io.initialise(fill, [&](double share) {
    if (parts_.timeline.now_ns() - last_ns < kProgressNs) return;
    last_ns = parts_.timeline.now_ns();
    const std::string text = "first values of the parameters: " + std::to_string(std::lround(100 * share)) + " %";
    host.log(CASTOR_LOG_INFO, text.c_str());
  }));
  initialised_ = true;
  return {};
}

Result<void> ModelValues::begin_use() {
  CASTOR_TRY(initialise());
  if (!std::exchange(in_use_, true)) parts_.bindings.unbind_first_values();
  return {};
}

Result<void> ModelValues::check(ParamId param) const {
  if (parts_.model.params.contains(param)) return {};
  return Error{ErrorKind::usage, "parameter " + std::to_string(number(param)) + " was asked for, the model has " +
                                     std::to_string(parts_.model.params.size())};
}

Result<castor_ranges> ModelValues::owned_ranges(std::uint32_t param) {
  CASTOR_TRY(check(ParamId{param}));
  owned_ = {0, parts_.model.params[ParamId{param}].n_values()};
  return castor_ranges{sizeof(castor_ranges), 1, owned_.data()};
}

Result<void> ModelValues::read_masters(const castor_values& wanted) {
  CASTOR_TRY(check(ParamId{wanted.param}));
  const ParamShape& param = parts_.model.params[ParamId{wanted.param}];
  CASTOR_ASSIGN(castor_param_state state, masters_of(wanted, param.n_values(), param.is_opaque()));
  return read_state(state);
}

/// Without gradients a parameter is left alone: there is nothing to remember.
Result<void> ModelValues::set_trainable(std::uint32_t param, std::int32_t trainable) {
  CASTOR_TRY(check(ParamId{param}));
  const ParamShape& shape = parts_.model.params[ParamId{param}];
  if (trainable == 0 || shape.spec.trainable) return {};
  return Error{ErrorKind::usage, shape.name +
                                     " was frozen when the model was boosted and has no optimizer states; "
                                     "boost the model with it trained"};
}

/// `gets_one`: the parameter has a gradient afterwards where all its values are given.
Result<ModelValues::GradientRange> ModelValues::gradient_range(const castor_values& wanted, bool gets_one) const {
  const ParamId param{wanted.param};
  CASTOR_TRY(check(param));
  const ParamShape& shape = parts_.model.params[param];
  CASTOR_ASSIGN(const castor_values values, fp32_values(wanted, shape.spec.numel, "gradients"));
  if (!shape.spec.trainable)
    return Error{ErrorKind::usage, "parameter " + shape.name + " is frozen, so it has no gradient"};
  const GradientRange range = {
      parts_.place_of[param], values.first, {static_cast<float*>(values.data), static_cast<std::size_t>(values.n)}};
  if (!range.tensor) return range;
  CASTOR_ASSIGN(const bool has, parts_.gradients.has(*range.tensor));
  if (!has && !(gets_one && values.n == shape.spec.numel)) return no_gradient(shape.name, shape.spec.numel);
  return range;
}

Result<void> ModelValues::read_gradient(const castor_values& wanted) {
  CASTOR_ASSIGN(const GradientRange range, gradient_range(wanted, false));
  return range.tensor ? parts_.gradients.read(*range.tensor, range.first, range.values) : Result<void>();
}

Result<void> ModelValues::write_gradient(const castor_values& wanted) {
  CASTOR_ASSIGN(const GradientRange range, gradient_range(wanted, true));
  return range.tensor ? parts_.gradients.write(*range.tensor, range.first, range.values) : Result<void>();
}

Result<void> ModelValues::acquire(const castor_access& access) {
  CASTOR_TRY(begin_use());
  return parts_.lent.acquire(access);
}

/// A parameter without elements has no values, and its updates are not counted.
Result<void> ModelValues::read_state(castor_param_state& state) {
  const ParamId param{state.param};
  CASTOR_TRY(check(param));
  CASTOR_TRY(initialise());
  StateValues values = values_of(state, parts_.model.params[param]);
  if (const auto tensor = parts_.place_of[param]) CASTOR_TRY(parts_.io.read(*tensor, values));
  state.n_updates = values.n_updates;
  return {};
}

Result<void> ModelValues::write_state(const castor_param_state& state) {
  const ParamId param{state.param};
  CASTOR_TRY(check(param));
  CASTOR_TRY(begin_use());
  const auto tensor = parts_.place_of[param];
  return tensor ? parts_.io.write(*tensor, values_of(state, parts_.model.params[param])) : Result<void>();
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <castor/plugins/strategy.h>
#include <castor/training/model_params.h>

namespace castor {

/// Whether none of the values is inf or nan.
bool all_finite(std::span<const float> values);

/// The first of the arrays of `state`, of `n` values each, that holds inf or nan, by its name; nothing where none does.
/// Opaque values are not looked at.
std::optional<std::string> not_finite_in(const castor_param_state& state);

/// The first array of a state that holds inf or nan, as `exp_avg of layers.0.weight`; nothing where none does. Reads all
/// states. Errors: those of read_state.
Result<std::optional<std::string>> first_not_finite(const ModelParams& params, Strategy& strategy);

/// Why a state is not saved. `array`: as from first_not_finite.
Error not_finite_error(const std::string& array);

}  // namespace castor

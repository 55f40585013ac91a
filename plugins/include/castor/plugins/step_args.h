// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/memory/result.h>
#include <castor/rules/step_options.h>
#include <castor/plugins/abi.h>

namespace castor {

/// `args` as far as whoever filled them in knew the fields: those behind its struct_size are 0.
castor_step_args known_fields(const castor_step_args& args);

/// That a model of `n_params` parameters can be stepped with `args`. Errors: usage, where they are of no optimizer
/// that there is, clip in two ways or by a value below 0, or a group is missing.
Result<void> check_step_args(const castor_step_args& args, std::uint32_t n_params);

/// That `plugin` does what `args` ask for. Errors: usage, where that came with a later minor version than the plugin's.
Result<void> check_support(const castor_plugin_info& plugin, const castor_step_args& args);

/// The same for the optimizer, with parameters for tensors. Requires: check_step_args.
StepOptions step_options(const castor_step_args& args, std::uint32_t n_params);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/chunk/ids.h>
#include <castor/memory/result.h>
#include <castor/plugins/abi.h>
#include <castor/rules/step_options.h>

namespace castor {

/// Checks that a model of `n_params` parameters can be stepped with `args`. Errors: usage, for an unknown optimizer, a
/// value out of range that the optimizer looks at (by name: lr, beta1, eps, …), a loss_scale of 0, clipping by a value
/// below 0 or by value together with a norm, LARS or LAMB, and a missing group.
Result<void> check_step_args(const castor_step_args& args, std::uint32_t n_params);

/// `args` as the options of an update. Requires: check_step_args.
StepOptionsBy<ParamId> step_options(const castor_step_args& args, std::uint32_t n_params);

}  // namespace castor

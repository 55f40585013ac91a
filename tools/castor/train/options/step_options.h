// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/memory/dtype.h>
#include <castor/plugins/abi.h>
#include <castor/plugins/grad_scaler.h>
#include <castor/plugins/lr_schedule.h>

#include "cli/cli.h"

namespace castor::train {

/// Reads --lr-schedule and the options that belong to it; without --decay-steps the schedule ends at `steps`.
/// Errors: usage, naming the option: out of range, without effect on the chosen schedule, or missing for it.
Result<void> read_schedule(const cli::Values& values, std::int64_t steps, LrScheduleOptions& schedule);

/// The options that only SGD and LARS have.
struct MomentumOptions {
  double momentum = 0.9;
  bool nesterov = false;
  double trust_coefficient = 0.001;  ///< of LARS
};

/// Errors: usage, naming the option: out of range, or without effect on `optimizer`.
Result<void> read_momentum(const cli::Values& values, castor_optimizer optimizer, MomentumOptions& options);

/// Reads the options of the loss scale, which only fp16 has.
/// Errors: usage, naming the option: out of range, or given for another precision.
Result<void> read_scaler(const cli::Values& values, DType precision, GradScalerOptions& scaler);

}  // namespace castor::train

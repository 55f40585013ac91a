// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/session.h>

#include <string>

namespace castor {

// The parts of SessionOptions that boost and estimate read alike.

inline TrainingFacts training_facts(const castor_step_args& values, const SessionOptions& options) {
  return {values.optimizer, options.micro_batches != 1, options.seed};
}

inline Result<void> check_micro_batches(const SessionOptions& options) {
  if (options.micro_batches >= (options.autograd_begins ? 0 : 1)) return {};
  return Error{
      ErrorKind::usage,
      "micro_batches takes the backward passes of a step, 1 or more, not " + std::to_string(options.micro_batches),
      "micro_batches"};
}

}  // namespace castor

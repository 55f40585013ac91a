// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/optimizer/gradient_store.h>
#include <castor/states/state_io.h>

namespace castor {

class GradientNorm;
class StepMachine;

/// The gradients of the step under way, for callers that look at them between the last backward pass and the step.
///
/// Threads: one at a time.
class PendingGradients {
 public:
  /// Borrowed.
  struct Parts {
    GradientStore& store;
    GradientNorm& norm;
    UpdateBarrier& barrier;
    const StepMachine& machine;
  };
  explicit PendingGradients(const Parts& parts) : parts_(parts) {}

  GradientStore& store() { return parts_.store; }

  /// The L2 norm of all gradients that have arrived since the last step, as they are: with the loss scale in them. Inf
  /// or NaN where they hold any. Makes the updates that wait since the last step. Errors: usage, where parameters of
  /// this step have been updated early, so that their gradients are gone; the error with which one was lost; those of
  /// the mover and of the kernels.
  [[nodiscard]] Result<double> norm();

 private:
  const Parts parts_;
};

}  // namespace castor

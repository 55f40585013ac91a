// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include <castor/optimizer/gradient_store.h>
#include <castor/states/state_io.h>

namespace castor {

class GradientNorm;
class StepMachine;

/// The gradients of the step under way, for callers that look at them or change them between the last backward pass and
/// the step.
///
/// Every call makes the updates that wait since the last step, and takes back speculative ones. Errors of all: usage,
/// where parameters of this step have been updated early, so that their gradients are gone; the error with which one
/// was lost; those of the mover.
/// Threads: one at a time.
class PendingGradients {
 public:
  /// Borrowed.
  struct Parts {
    GradientStore& store;
    GradientNorm& norm;
    UpdateBarrier& barrier;
    const StepMachine& machine;
    const ChunkLayout& layout;
    StatefulTensorMgr& mover;
  };
  explicit PendingGradients(const Parts& parts) : parts_(parts) {}

  GradientStore& store() { return parts_.store; }

  /// The L2 norm of all gradients that have arrived since the last step, as they are: with the loss scale in them. Inf
  /// or NaN where they hold any. Errors: also those of the kernels.
  [[nodiscard]] Result<double> norm();

  /// True where `tensor` has a gradient since the last step.
  [[nodiscard]] Result<bool> has(TensorId tensor);
  /// Copies values of the sum of the gradients of `tensor`, from number `first` on. Requires: has(tensor), and the
  /// values exist.
  [[nodiscard]] Result<void> read(TensorId tensor, std::uint64_t first, std::span<float> values);
  /// Replaces them (GradientStore::write).
  [[nodiscard]] Result<void> write(TensorId tensor, std::uint64_t first, std::span<const float> values);

 private:
  Result<void> complete(const char* wish);

  const Parts parts_;
};

}  // namespace castor

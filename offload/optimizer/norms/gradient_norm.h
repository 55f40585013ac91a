// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <castor/memory/buffer.h>
#include <castor/memory/device.h>
#include <castor/memory/host_team.h>
#include <castor/optimizer/gradient_store.h>
#include <castor/optimizer/step_options.h>
#include <castor/rules/grad_norm.h>
#include <castor/schedule/scheduler.h>
#include <castor/states/state_layout.h>

#include "host_norm.h"

namespace castor {

/// The norm of a step's gradients. A tensor's only gradient is measured on the device as it arrives; gradients that
/// were added up are measured by measure(), on the tier of their update.
///
/// Threads: one at a time.
class GradientNorm {
 public:
  /// Borrowed.
  struct Parts {
    StateLayout& states;
    GradientStore& gradients;
    ChunkManager& chunks;
    StatefulTensorMgr& mover;
    Scheduler& scheduler;
    Device& device;
    Stream& compute;
    HostTeam& team;
  };

  /// Errors: those of make_grad_norm and of its memory, 8 B a tensor.
  static Result<std::unique_ptr<GradientNorm>> make(const Parts& parts);

  /// Sets whether the coming step needs a norm.
  void want(bool wanted) { wanted_ = wanted; }
  bool wanted() const { return wanted_; }

  /// Measures a gradient of `tensor` at `grad`, if a norm is wanted and it is the tensor's first. Requires: it is not
  /// in the store yet. Where the kernel fails, measure() measures it instead.
  void arrived(TensorId tensor, const void* grad);

  /// The values of the gradient of `tensor` were replaced in the store: measure() measures them.
  void replaced(TensorId tensor) { measured_[tensor] = false; }

  /// The scale of a step with these options; 1 where they want no norm. Waits for the sums. Errors: those of the mover
  /// and of the kernels.
  [[nodiscard]] Result<StepScale> measure(const StepOptions& options);

 private:
  explicit GradientNorm(const Parts& parts) : parts_(parts) {}
  bool measured(PayloadId chunk) const;
  Result<void> measure_chunk(PayloadId chunk, std::vector<HostNorm>& on_host);
  double& sum(TensorId tensor) { return reinterpret_cast<double*>(sums_.data())[index(tensor)]; }

  const Parts parts_;
  std::unique_ptr<GradNormKernel> device_norm_;
  Buffer sums_;                             ///< of squares, a double per tensor; the device writes them without waiting
  IndexedVector<TensorId, bool> measured_;  ///< the stream writes the sum of its only gradient in this step to sums_
  bool wanted_ = false;
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include <castor/chunk/ids.h>
#include <castor/optimizer/step_options.h>

namespace castor {

/// Updates of a finished step, each of which waits for the next use of its chunk.
class DeferredUpdates {
 public:
  explicit DeferredUpdates(std::size_t n_chunks) : waits_(n_chunks, false) {}

  /// Sets the options and the scale of the updates that are added from now on. Requires: none waits.
  void begin(const StepOptions& options, double grad_scale) {
    options_ = options;
    grad_scale_ = grad_scale;
  }
  void add(PayloadId chunk) { waits_.at(chunk) = true; }
  void clear() { waits_.assign(waits_.size(), false); }
  /// Removes `chunk`; returns false where it did not wait.
  bool take(PayloadId chunk) { return waits_.at(chunk) && (waits_[chunk] = false, true); }

  bool waits(PayloadId chunk) const { return waits_.at(chunk); }
  bool any() const { return std::find(waits_.begin(), waits_.end(), true) != waits_.end(); }
  const StepOptions& options() const { return options_; }
  double grad_scale() const { return grad_scale_; }

 private:
  IndexedVector<PayloadId, bool> waits_;
  StepOptions options_;
  double grad_scale_ = 1;
};

}  // namespace castor

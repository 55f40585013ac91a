// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>

#include <optional>

namespace castor {

/// What a training makes of the forward and backward passes of its model: which it refuses, and what it notes of them.
/// Threads: that of the pass.
class PassRules {
 public:
  virtual ~PassRules() = default;

  /// Called before each forward pass of a unit outside backward. An error refuses it, before the strategy hears of it.
  virtual Result<void> may_run_forward() const { return {}; }
  /// Called before each forward pass of a unit that builds a graph: the micro-batch that begins with it, of which the
  /// strategy is told (begin_micro_batch); none where it has begun already.
  virtual std::optional<castor_micro_batch> begun_micro_batch() { return {}; }
  /// Called where autograd begins a backward pass that does not come from TorchAdapter::backward. An error refuses it.
  virtual Result<void> begin_backward() { return {}; }
  /// Called at the end of such a pass, after the strategy's end_of_backward; or, where an exception has ended it, before
  /// the next pass.
  virtual void end_backward(bool whole) { (void)whole; }
};

}  // namespace castor

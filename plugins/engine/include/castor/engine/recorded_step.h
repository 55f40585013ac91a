// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <castor/optimizer/step_script.h>
#include <castor/plugins/abi.h>

namespace castor {

/// A call of a model's step, and the model's work from it to the next call.
struct RecordedCall {
  StepCall call;     ///< `gradient` names a parameter
  double flops = 0;  ///< operations of matrix products, attention and convolutions
  /// The most bytes of device memory that the model's tensors take meanwhile: activations, workspaces, the batch, and
  /// gradients that have not been handed over. Without parameters, and without activations that were kept.
  std::uint64_t peak_bytes = 0;
};

/// One step of a model: its units and parameters, and the calls that a strategy gets from forward and backward, without
/// those of the optimizer's step.
struct RecordedStep {
  struct Param {
    std::string name;
    std::vector<std::int64_t> shape;
    DLDataType dtype = {kDLBfloat, 16, 1};
    std::uint32_t flags = CASTOR_PARAM_TRAINABLE;  ///< CASTOR_PARAM_*
    std::uint64_t numel() const;
  };
  struct Unit {
    std::string name;
    std::vector<std::uint32_t> params;  ///< those of other units that it uses included
  };

  std::vector<Param> params;
  std::vector<Unit> units;
  std::vector<RecordedCall> calls;

  /// Elements of all parameters.
  std::uint64_t n_params() const;
  /// The sum over all calls.
  double flops() const;
  /// Of each unit the operations of its passes, without those of other units within them.
  std::vector<double> flops_of_units() const;
  /// The largest of all calls.
  std::uint64_t peak_bytes() const;

  /// Makes it a step of `n` micro-batches like its one, announced before the last backward pass; 0: of one, which is not
  /// announced.
  void repeat(std::uint32_t n);
};

}  // namespace castor

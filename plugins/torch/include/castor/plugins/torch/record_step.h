// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/adapter_options.h>
#include <castor/plugins/torch/model_parts.h>
#include <castor/plugins/torch/unit_border.h>

#include <castor/engine/recorded_step.h>
#include <castor/memory/result.h>

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace torch::nn {
class Module;
}

namespace castor {

struct RecordingOptions {
  ModuleFilter is_unit = nullptr;  ///< as AdapterOptions
  /// The strategy takes the inputs of recomputed parts (offload_activations); else autograd keeps them.
  bool keeps_inputs = false;
};

/// Runs one forward and one backward pass of `model` on LibTorch's meta device, where tensors have shapes and no memory,
/// and writes down the calls that a strategy gets, the operations between them, and the bytes that the model's tensors
/// would take on a GPU.
///
/// `loss` computes the loss of one micro-batch; the batch is on the meta device too. Attention counts as the flash
/// kernel's. Workspaces of libraries do not count.
/// Requires: no other recording in the process, and nothing else on the meta device meanwhile. No adapter of the model
/// is connected. Cost: about 10 µs per operator. Errors: usage, where the model is not on the meta device; failed, where
/// an operator has no kernel for it.
Result<RecordedStep> record_step(std::shared_ptr<torch::nn::Module> model, const std::function<at::Tensor()>& loss,
                                 const RecordingOptions& options = {});

/// The same of a model as parts, whose program brings the passes of units into their borders and computes the loss between
/// begin and end. Requires and errors: as record_step; begun and ended by one thread.
class StepRecording {
 public:
  static Result<std::unique_ptr<StepRecording>> begin(const ModelParts& model, bool keeps_inputs);
  ~StepRecording();

  /// Requires: there is a unit of that number.
  UnitBorder& unit(std::size_t number) const;
  /// Around the kernel of an operator that the program watches and runs itself: neither the operators within it count, nor
  /// memory that they free again. (In Python the kernels of the meta device are programs of other operators.)
  void begin_operator();
  void end_operator();
  /// Runs the backward pass from `loss`, and ends the recording.
  Result<RecordedStep> end(const at::Tensor& loss);

 private:
  friend Result<RecordedStep> record_step(std::shared_ptr<torch::nn::Module> model,
                                          const std::function<at::Tensor()>& loss, const RecordingOptions& options);
  struct Parts;
  explicit StepRecording(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/adapter_options.h>

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

}  // namespace castor

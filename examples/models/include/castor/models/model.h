// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/dtype.h>
#include <castor/memory/result.h>

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace castor {

/// The options that a model is built with.
struct ModelOptions {
  DType dtype = DType::bf16;  ///< of the weights and activations; the loss is fp32
  c10::Device device = c10::kCPU;
  bool recompute = false;  ///< run each block's forward again in backward instead of keeping its activations
  std::int64_t seq = 128;  ///< tokens per sample (text)
};

/// One batch on the model's device.
struct Batch {
  at::Tensor
      input;  ///< text: int64 [batch, seq]; vit: [batch, 3, 224, 224] and mlp: [batch, features] in the model's dtype
  at::Tensor target;  ///< text: int64 [batch, seq]; vit, mlp: int64 [batch]
};

/// A model that can be trained: a module whose parameters belong to units (castor/plugins/torch/unit.h).
class Model : public torch::nn::Module {
 public:
  /// The model's output for `input`, in its own dtype: text [batch, seq, vocab], vit and mlp [batch, classes].
  virtual at::Tensor logits(const at::Tensor& input) = 0;
  /// The mean loss of `batch`, an fp32 scalar. Throws the errors of hooks and of LibTorch: call it through guard()
  /// (castor/plugins/torch/errors.h).
  at::Tensor loss(const Batch& batch);
  /// Random input of the right shapes, the same for the same `seed` on every machine.
  virtual Batch random_batch(std::int64_t n_samples, std::uint64_t seed) = 0;
  /// True if the model reads text, so that --data applies.
  virtual bool reads_text() const { return false; }
  /// Number of different ids in the input (text: the vocabulary); 0 if it has no ids.
  virtual std::int64_t vocabulary() const { return 0; }
  /// Tokens (text) or samples (vit, mlp) per sample, for throughput.
  virtual std::int64_t tokens_per_sample() const { return 1; }
};

/// Builds a model by name, its parameters declared without memory:
/// one of model_names(), or spelled out: `gpt:layers=4,hidden=352,heads=8,vocab=256,tied=1,seq=128`,
/// `llama:layers=4,hidden=256,heads=8,kv_heads=4,ffn=688,vocab=256`, `mixtral:…,experts=4`,
/// `vit:layers=12,hidden=768,heads=12,patch=16`, `mlp:layers=3,hidden=512,classes=10`. Missing keys have the values of
/// gpt2-124m, llama2-7b, mixtral-8x7b, vit-b or mlp; the positions of a spelled-out gpt are `seq=`, or those of
/// `options`. On the device c10::kMeta a model of any size takes no memory (castor/plugins/torch/record_step.h).
/// Errors: usage, naming the part that was not understood and the known ones.
Result<std::shared_ptr<Model>> make_model(std::string_view name, const ModelOptions& options);

/// `name` with all its numbers, in one order: equal for the names of equal models. Errors: as make_model.
Result<std::string> spelled_out(std::string_view name);

/// The names of published models, one family after another.
std::vector<std::string> model_names();

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/recompute.h>
#include "layers.h"

namespace castor {

/// `body(x)` of a block, which begins with `first_unit`; it runs again in backward if it is recomputed.
inline at::Tensor run_block(const std::function<at::Tensor(const at::Tensor&)>& body, const at::Tensor& x,
                            bool recomputed, const UnitBorder& first_unit) {
  return recomputed ? recompute(body, x, &first_unit) : body(x);
}

/// The shape of a transformer block. GPT-2 and ViT differ in the last three values only.
struct BlockShape {
  std::int64_t layers;  ///< of the whole model: residual projections are initialised smaller by 1/sqrt(2·layers)
  std::int64_t hidden;  ///< a multiple of `heads`
  std::int64_t heads;
  bool causal;  ///< a position attends to itself and earlier ones
  double norm_eps;
  const char* gelu;  ///< "tanh" (GPT-2) or "none" (exact, ViT)
};

/// A pre-norm transformer block: x + attention(norm(x)), then x + mlp(norm(x)), the mlp four times as wide.
/// Source: Radford et al., "Language models are unsupervised multitask learners", 2019, section 2.3.
class TransformerBlock final : public torch::nn::Module {
 public:
  TransformerBlock(const BlockShape& shape, const at::TensorOptions& options);
  /// x and the result: [batch, seq, hidden].
  at::Tensor forward(const at::Tensor& x);
  const UnitBorder& first_unit() const { return *norm1_; }

 private:
  at::Tensor attend(const at::Tensor& x);

  const BlockShape shape_;
  std::shared_ptr<LayerNorm> norm1_, norm2_;
  std::shared_ptr<Linear> qkv_, out_, up_, down_;
};

/// `shape.layers` blocks, each recomputed in backward if `recompute`.
class BlockStack final : public torch::nn::Module {
 public:
  BlockStack(const BlockShape& shape, bool recompute, const at::TensorOptions& options);
  at::Tensor forward(at::Tensor x);

 private:
  const bool recompute_;
  std::vector<std::shared_ptr<TransformerBlock>> blocks_;
};

}  // namespace castor

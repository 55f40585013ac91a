// SPDX-License-Identifier: Apache-2.0
#include "gpt.h"

#include "random_input.h"
#include "tensor_options.h"

namespace castor {
namespace {

constexpr double kGptNormEps = 1e-5;

}  // namespace

Gpt::Gpt(const GptShape& shape, const ModelOptions& options)
    : shape_(shape), seq_(options.seq), device_(options.device) {
  const at::TensorOptions tensors = tensor_options(options);
  tokens_ = register_module("tokens", std::make_shared<TokenEmbedding>(shape.vocab, shape.hidden, tensors));
  positions_ =
      register_module("positions", std::make_shared<PositionEmbedding>(shape.positions, shape.hidden, tensors));
  blocks_ = register_module("blocks", std::make_shared<BlockStack>(block_shape(), options.recompute, tensors));
  norm_ = register_module("norm", std::make_shared<LayerNorm>(shape.hidden, kGptNormEps, tensors));
  if (shape.tied) {
    tied_head_ = register_module("head", std::make_shared<TiedHead>(*tokens_));
  } else {
    const Linear::Shape head = {shape.hidden, shape.vocab, /*bias=*/false};
    head_ = register_module("head", std::make_shared<Linear>(head, Init::normal(kWeightStddev), tensors));
  }
}

BlockShape Gpt::block_shape() const {
  return {shape_.layers, shape_.hidden, shape_.heads, /*causal=*/true, kGptNormEps, "tanh"};
}

at::Tensor Gpt::logits(const at::Tensor& ids) {
  const at::Tensor x = norm_->forward(blocks_->forward(positions_->forward(tokens_->forward(ids))));
  return shape_.tied ? tied_head_->forward(x) : head_->forward(x);
}

Batch Gpt::random_batch(std::int64_t n_samples, std::uint64_t seed) {
  return random_text(n_samples, seq_, shape_.vocab, seed, device_);
}

}  // namespace castor

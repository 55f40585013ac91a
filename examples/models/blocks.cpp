// SPDX-License-Identifier: Apache-2.0
#include "blocks.h"

#include <cmath>

namespace castor {

TransformerBlock::TransformerBlock(const BlockShape& shape, const at::TensorOptions& options) : shape_(shape) {
  const std::int64_t h = shape.hidden;
  const Init weight = Init::normal(kWeightStddev);
  const Init residual = Init::normal(kWeightStddev / std::sqrt(2.0 * static_cast<double>(shape.layers)));
  norm1_ = register_module("norm1", std::make_shared<LayerNorm>(h, shape.norm_eps, options));
  qkv_ = register_module("qkv", std::make_shared<Linear>(Linear::Shape{h, 3 * h}, weight, options));
  out_ = register_module("out", std::make_shared<Linear>(Linear::Shape{h, h}, residual, options));
  norm2_ = register_module("norm2", std::make_shared<LayerNorm>(h, shape.norm_eps, options));
  up_ = register_module("up", std::make_shared<Linear>(Linear::Shape{h, 4 * h}, weight, options));
  down_ = register_module("down", std::make_shared<Linear>(Linear::Shape{4 * h, h}, residual, options));
}

at::Tensor TransformerBlock::attend(const at::Tensor& x) {
  const std::int64_t n = x.size(0), seq = x.size(1);
  // [batch, seq, 3, heads, size] to three of [batch, heads, seq, size], all of them views.
  const auto parts =
      qkv_->forward(x).view({n, seq, 3, shape_.heads, shape_.hidden / shape_.heads}).permute({2, 0, 3, 1, 4}).unbind(0);
  const at::Tensor seen = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, shape_.causal);
  return out_->forward(seen.transpose(1, 2).reshape({n, seq, shape_.hidden}));
}

at::Tensor TransformerBlock::forward(const at::Tensor& x) {
  const at::Tensor y = x + attend(norm1_->forward(x));
  return y + down_->forward(at::gelu(up_->forward(norm2_->forward(y)), shape_.gelu));
}

BlockStack::BlockStack(const BlockShape& shape, bool recompute, const at::TensorOptions& options)
    : recompute_(recompute) {
  for (std::int64_t i = 0; i < shape.layers; ++i)
    blocks_.push_back(register_module(std::to_string(i), std::make_shared<TransformerBlock>(shape, options)));
}

at::Tensor BlockStack::forward(at::Tensor x) {
  for (const auto& block : blocks_)
    x = run_block([block](const at::Tensor& in) { return block->forward(in); }, x, recompute_, block->first_unit());
  return x;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "llama.h"

#include "blocks.h"
#include "random_input.h"
#include "tensor_options.h"

namespace castor {

Llama::Llama(const LlamaShape& shape, std::int64_t vocab, const ModelOptions& options)
    : shape_(shape), vocab_(vocab), options_(options) {
  const at::TensorOptions tensors = tensor_options(options);
  tokens_ = register_module("tokens", std::make_shared<TokenEmbedding>(vocab, shape.hidden, tensors));
  for (std::int64_t i = 0; i < shape.layers; ++i)
    blocks_.push_back(register_module("block" + std::to_string(i), std::make_shared<LlamaBlock>(shape, tensors)));
  norm_ = register_module("norm", std::make_shared<RmsNorm>(shape.hidden, kRmsEps, tensors));
  const Linear::Shape head = {shape.hidden, vocab, /*bias=*/false};
  head_ = register_module("head", std::make_shared<Linear>(head, Init::normal(kWeightStddev), tensors));
}

at::Tensor Llama::logits(const at::Tensor& ids) {
  at::Tensor x = tokens_->forward(ids);
  const Rotation rotation(ids.size(1), shape_.hidden / shape_.heads, shape_.rotary_base, x.options());
  for (const auto& block : blocks_) {
    const auto body = [block, rotation](const at::Tensor& in) { return block->forward(in, rotation); };
    x = run_block(body, x, options_.recompute, block->first_unit());
  }
  return head_->forward(norm_->forward(x));
}

Batch Llama::random_batch(std::int64_t n_samples, std::uint64_t seed) {
  return random_text(n_samples, options_.seq, vocab_, seed, options_.device);
}

}  // namespace castor

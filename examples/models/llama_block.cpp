// SPDX-License-Identifier: Apache-2.0
#include "llama_block.h"

#include <cmath>

namespace castor {
namespace {

constexpr std::int64_t kExpertsTaken = 2;

std::shared_ptr<Linear> linear(std::int64_t in, std::int64_t out, Init init, const at::TensorOptions& options) {
  return std::make_shared<Linear>(Linear::Shape{in, out, /*bias=*/false}, init, options);
}

Init usual_init() { return Init::normal(kWeightStddev); }
Init residual_init(const LlamaShape& shape) {
  return Init::normal(kWeightStddev / std::sqrt(2.0 * static_cast<double>(shape.layers)));
}

/// [batch, seq, heads·size] to [batch, heads, seq, size], a view.
at::Tensor in_heads(const at::Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

}  // namespace

Rotation::Rotation(std::int64_t seq, std::int64_t size, double base, const at::TensorOptions& options) {
  const at::TensorOptions wide = options.dtype(at::kFloat);
  const at::Tensor speeds = at::pow(base, at::arange(0, size, 2, wide) / static_cast<double>(-size));
  const at::Tensor angles = at::arange(seq, wide).unsqueeze(1) * speeds;
  cos_ = at::cat({angles, angles}, 1).cos().to(options.dtype());
  sin_ = at::cat({-angles, angles}, 1).sin().to(options.dtype());
}

at::Tensor Rotation::turn(const at::Tensor& x) const {
  const auto halves = x.chunk(2, -1);
  return x * cos_ + at::cat({halves[1], halves[0]}, -1) * sin_;
}

SwiGlu::SwiGlu(const LlamaShape& shape, const at::TensorOptions& options) {
  gate_ = register_module("gate", linear(shape.hidden, shape.ffn, usual_init(), options));
  up_ = register_module("up", linear(shape.hidden, shape.ffn, usual_init(), options));
  down_ = register_module("down", linear(shape.ffn, shape.hidden, residual_init(shape), options));
}

at::Tensor SwiGlu::forward(const at::Tensor& x) {
  const at::Tensor gate = at::silu(gate_->forward(x));
  return down_->forward(gate * up_->forward(x));
}

Experts::Experts(const LlamaShape& shape, const at::TensorOptions& options) {
  router_ = register_module("router", linear(shape.hidden, shape.experts, usual_init(), options));
  for (std::int64_t i = 0; i < shape.experts; ++i)
    experts_.push_back(register_module("expert" + std::to_string(i), std::make_shared<SwiGlu>(shape, options)));
}

/// The tokens are sorted by their experts, and each expert works on its part of them.
at::Tensor Experts::forward(const at::Tensor& x) {
  const at::Tensor rows = x.flatten(0, -2);
  const auto [logits, chosen] = router_->forward(rows).topk(kExpertsTaken, -1);
  const at::Tensor weights = at::softmax(logits, -1, at::kFloat).to(x.scalar_type());
  const at::Tensor order = chosen.flatten().argsort(/*stable=*/true, 0, /*descending=*/false);
  const at::Tensor sorted = rows.index_select(0, order.div(kExpertsTaken, "floor"));
  std::vector<at::Tensor> parts;
  std::int64_t begin = 0;
  const std::vector<std::int64_t> n_taken = counts(chosen);
  for (std::size_t i = 0; i < experts_.size(); begin += n_taken[i++])
    parts.push_back(experts_[i]->forward(sorted.narrow(0, begin, n_taken[i])));
  const at::Tensor by_token = at::cat(parts).index_select(0, order.argsort()).view({-1, kExpertsTaken, x.size(-1)});
  return (by_token * weights.unsqueeze(-1)).sum(1).view(x.sizes());
}

std::vector<std::int64_t> Experts::counts(const at::Tensor& chosen) const {
  const auto n_experts = static_cast<std::int64_t>(experts_.size());
  std::vector<std::int64_t> found(experts_.size(), chosen.numel() / n_experts);
  if (chosen.is_meta()) {
    for (std::int64_t i = 0; i < chosen.numel() % n_experts; ++i) ++found[static_cast<std::size_t>(i)];
    return found;
  }
  const at::Tensor n_taken = at::bincount(chosen.flatten(), {}, n_experts).to(at::kCPU);
  std::copy_n(n_taken.const_data_ptr<std::int64_t>(), n_experts, found.begin());
  return found;
}

LlamaBlock::LlamaBlock(const LlamaShape& shape, const at::TensorOptions& options) : shape_(shape) {
  const std::int64_t h = shape.hidden, kv = h / shape.heads * shape.kv_heads;
  norm1_ = register_module("norm1", std::make_shared<RmsNorm>(h, kRmsEps, options));
  query_ = register_module("query", linear(h, h, usual_init(), options));
  key_ = register_module("key", linear(h, kv, usual_init(), options));
  value_ = register_module("value", linear(h, kv, usual_init(), options));
  out_ = register_module("out", linear(h, h, residual_init(shape), options));
  norm2_ = register_module("norm2", std::make_shared<RmsNorm>(h, kRmsEps, options));
  if (shape.experts == 1)
    feed_forward_ = register_module("feed_forward", std::make_shared<SwiGlu>(shape, options));
  else
    experts_ = register_module("experts", std::make_shared<Experts>(shape, options));
}

at::Tensor LlamaBlock::attend(const at::Tensor& x, const Rotation& rotation) {
  const at::Tensor query = rotation.turn(in_heads(query_->forward(x), shape_.heads));
  const at::Tensor key = rotation.turn(in_heads(key_->forward(x), shape_.kv_heads));
  const at::Tensor value = in_heads(value_->forward(x), shape_.kv_heads);
  const bool grouped = shape_.heads != shape_.kv_heads;
  const at::Tensor seen =
      at::scaled_dot_product_attention(query, key, value, {}, 0.0, /*is_causal=*/true, std::nullopt, grouped);
  return out_->forward(seen.transpose(1, 2).reshape(x.sizes()));
}

at::Tensor LlamaBlock::forward(const at::Tensor& x, const Rotation& rotation) {
  const at::Tensor y = x + attend(norm1_->forward(x), rotation);
  const at::Tensor z = norm2_->forward(y);
  return y + (experts_ ? experts_->forward(z) : feed_forward_->forward(z));
}

}  // namespace castor

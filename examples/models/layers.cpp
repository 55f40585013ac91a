// SPDX-License-Identifier: Apache-2.0
#include "layers.h"

#include "affine.h"

namespace castor {

Linear::Linear(Shape shape, Init weight, const at::TensorOptions& options) : Unit("Linear") {
  weight_ = declare("weight", {shape.out, shape.in}, options, weight);
  if (shape.bias) bias_ = declare("bias", {shape.out}, options, Init::zeros());
}

at::Tensor Linear::forward(const at::Tensor& x) {
  // Flattened to rows: of two dimensions at::linear adds the bias within the product, whatever the strides of x.
  const at::Tensor rows = run(x.flatten(0, -2), [&](const at::Tensor& in) { return affine(in, weight_, bias_); });
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = rows.size(1);
  return rows.view(sizes);
}

LayerNorm::LayerNorm(std::int64_t size, double eps, const at::TensorOptions& options) : Unit("LayerNorm"), eps_(eps) {
  weight_ = declare("weight", {size}, options, Init::ones());
  bias_ = declare("bias", {size}, options, Init::zeros());
}

at::Tensor LayerNorm::forward(const at::Tensor& x) {
  return run(x, [&](const at::Tensor& in) { return at::layer_norm(in, weight_.sizes(), weight_, bias_, eps_); });
}

RmsNorm::RmsNorm(std::int64_t size, double eps, const at::TensorOptions& options) : Unit("RmsNorm"), eps_(eps) {
  weight_ = declare("weight", {size}, options, Init::ones());
}

at::Tensor RmsNorm::forward(const at::Tensor& x) {
  return run(x, [&](const at::Tensor& in) { return at::rms_norm(in, weight_.sizes(), weight_, eps_); });
}

TokenEmbedding::TokenEmbedding(std::int64_t vocab, std::int64_t hidden, const at::TensorOptions& options)
    : Unit("TokenEmbedding") {
  weight_ = declare("weight", {vocab, hidden}, options, Init::normal(kWeightStddev));
}

at::Tensor TokenEmbedding::forward(const at::Tensor& ids) {
  return run(ids, [&](const at::Tensor& in) { return at::embedding(weight_, in); });
}

PositionEmbedding::PositionEmbedding(std::int64_t positions, std::int64_t hidden, const at::TensorOptions& options)
    : Unit("PositionEmbedding") {
  weight_ = declare("weight", {positions, hidden}, options, Init::normal(kWeightStddev));
}

at::Tensor PositionEmbedding::forward(const at::Tensor& x) {
  return run(x, [&](const at::Tensor& in) { return in + weight_.narrow(0, 0, in.size(1)); });
}

ClassToken::ClassToken(std::int64_t patches, std::int64_t hidden, const at::TensorOptions& options)
    : Unit("ClassToken") {
  token_ = declare("token", {1, 1, hidden}, options, Init::zeros());
  positions_ = declare("positions", {1, patches + 1, hidden}, options, Init::normal(kWeightStddev));
}

at::Tensor ClassToken::forward(const at::Tensor& x) {
  return run(x, [&](const at::Tensor& in) {
    return at::cat({token_.expand({in.size(0), 1, -1}), in}, 1) + positions_;
  });
}

TiedHead::TiedHead(const TokenEmbedding& embedding) : Unit("TiedHead"), weight_(embedding.weight()) { share(weight_); }

at::Tensor TiedHead::forward(const at::Tensor& x) {
  return run(x, [&](const at::Tensor& in) { return affine(in, weight_); });
}

}  // namespace castor

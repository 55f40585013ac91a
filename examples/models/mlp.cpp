// SPDX-License-Identifier: Apache-2.0
#include "mlp.h"

#include <castor/plugins/torch/recompute.h>
#include "random_input.h"
#include "tensor_options.h"

#include <cmath>

namespace castor {
namespace {

/// Keeps the variance of activations through ReLU (He, Zhang, Ren, Sun, "Delving deep into rectifiers", 2015,
/// equation 10).
Init he_init(std::int64_t in) { return Init::normal(std::sqrt(2.0 / static_cast<double>(in))); }

}  // namespace

Mlp::Mlp(const MlpShape& shape, const ModelOptions& options) : shape_(shape), options_(options) {
  const at::TensorOptions tensors = tensor_options(options);
  for (std::int64_t i = 0; i < shape.layers; ++i) {
    const std::int64_t in = i == 0 ? shape.features : shape.hidden;
    const auto layer = std::make_shared<Linear>(Linear::Shape{in, shape.hidden}, he_init(in), tensors);
    layers_.push_back(register_module("layer" + std::to_string(i), layer));
  }
  head_ = register_module(
      "head", std::make_shared<Linear>(Linear::Shape{shape.hidden, shape.classes}, he_init(shape.hidden), tensors));
}

at::Tensor Mlp::hidden(std::size_t layer, const at::Tensor& x) {
  const auto body = [unit = layers_[layer]](const at::Tensor& in) { return at::relu(unit->forward(in)); };
  return options_.recompute ? recompute(body, x, layers_[layer].get()) : body(x);
}

at::Tensor Mlp::logits(const at::Tensor& input) {
  at::Tensor x = input;
  for (std::size_t i = 0; i < layers_.size(); ++i) x = hidden(i, x);
  return head_->forward(x);
}

Batch Mlp::random_batch(std::int64_t n_samples, std::uint64_t seed) {
  return {random_values({n_samples, shape_.features}, seed, 0, tensor_options(options_)),
          random_ids({n_samples}, shape_.classes, seed, 1, options_.device)};
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "vit.h"

#include "random_input.h"
#include "tensor_options.h"

namespace castor {
namespace {

constexpr double kVitNormEps = 1e-6;
constexpr std::int64_t kColours = 3;

}  // namespace

Vit::Vit(const VitShape& shape, const ModelOptions& options) : shape_(shape), options_(options) {
  const at::TensorOptions tensors = tensor_options(options);
  const Init weight = Init::normal(kWeightStddev);
  const Linear::Shape embed = {kColours * shape.patch * shape.patch, shape.hidden};
  embed_ = register_module("embed", std::make_shared<Linear>(embed, weight, tensors));
  token_ = register_module("token", std::make_shared<ClassToken>(n_patches(), shape.hidden, tensors));
  blocks_ = register_module("blocks", std::make_shared<BlockStack>(block_shape(), options.recompute, tensors));
  norm_ = register_module("norm", std::make_shared<LayerNorm>(shape.hidden, kVitNormEps, tensors));
  head_ =
      register_module("head", std::make_shared<Linear>(Linear::Shape{shape.hidden, shape.classes}, weight, tensors));
}

BlockShape Vit::block_shape() const {
  return {shape_.layers, shape_.hidden, shape_.heads, /*causal=*/false, kVitNormEps, "none"};
}

std::int64_t Vit::n_patches() const {
  const std::int64_t side = kImageSize / shape_.patch;
  return side * side;
}

/// [batch, 3, 224, 224] to [batch, patches, 3·patch·patch]
at::Tensor Vit::patches(const at::Tensor& images) const {
  const std::int64_t n = images.size(0), side = kImageSize / shape_.patch, p = shape_.patch;
  return images.view({n, kColours, side, p, side, p})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({n, side * side, kColours * p * p});
}

at::Tensor Vit::logits(const at::Tensor& images) {
  const at::Tensor x = norm_->forward(blocks_->forward(token_->forward(embed_->forward(patches(images)))));
  return head_->forward(x.select(1, 0));
}

Batch Vit::random_batch(std::int64_t n_samples, std::uint64_t seed) {
  return {random_values({n_samples, kColours, kImageSize, kImageSize}, seed, 0, tensor_options(options_)),
          random_ids({n_samples}, shape_.classes, seed, 1, options_.device)};
}

}  // namespace castor

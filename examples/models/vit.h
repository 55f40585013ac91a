// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/models/model.h>
#include "blocks.h"

namespace castor {

struct VitShape {
  std::int64_t layers, hidden, heads, patch, classes;
};

/// The Vision Transformer for images of 224 × 224: patches through one linear layer, a class token, learned
/// positions, pre-norm blocks, a head on the class token.
/// Source: Dosovitskiy et al., "An image is worth 16x16 words", 2021.
class Vit final : public Model {
 public:
  /// Requires: hidden is a multiple of heads, 224 is one of patch (make_model refuses others).
  Vit(const VitShape& shape, const ModelOptions& options);

  static constexpr std::int64_t kImageSize = 224;

  at::Tensor logits(const at::Tensor& images) override;
  Batch random_batch(std::int64_t n_samples, std::uint64_t seed) override;

 private:
  BlockShape block_shape() const;
  std::int64_t n_patches() const;
  at::Tensor patches(const at::Tensor& images) const;

  const VitShape shape_;
  const ModelOptions options_;
  std::shared_ptr<Linear> embed_;
  std::shared_ptr<ClassToken> token_;
  std::shared_ptr<BlockStack> blocks_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> head_;
};

}  // namespace castor

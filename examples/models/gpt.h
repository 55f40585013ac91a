// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/models/model.h>
#include "blocks.h"

namespace castor {

struct GptShape {
  std::int64_t layers, hidden, heads, vocab, positions;
  bool tied;
};

/// GPT-2: learned positions, pre-norm blocks, a final norm, a head without bias whose weight is the embedding's if
/// `tied`.
/// Source: Radford et al., "Language models are unsupervised multitask learners", 2019.
class Gpt final : public Model {
 public:
  /// Requires: hidden is a multiple of heads, options.seq is at most shape.positions (make_model refuses others).
  Gpt(const GptShape& shape, const ModelOptions& options);

  at::Tensor logits(const at::Tensor& ids) override;
  Batch random_batch(std::int64_t n_samples, std::uint64_t seed) override;
  bool reads_text() const override { return true; }
  std::int64_t vocabulary() const override { return shape_.vocab; }
  std::int64_t tokens_per_sample() const override { return seq_; }

 private:
  BlockShape block_shape() const;

  const GptShape shape_;
  const std::int64_t seq_;
  const c10::Device device_;
  std::shared_ptr<TokenEmbedding> tokens_;
  std::shared_ptr<PositionEmbedding> positions_;
  std::shared_ptr<BlockStack> blocks_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<TiedHead> tied_head_;  // one of the two is null
  std::shared_ptr<Linear> head_;
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/models/model.h>
#include "llama_block.h"

namespace castor {

/// LLaMA: RMS norms before attention and feed-forward part, rotary positions, no biases, a head of its own. With
/// experts it is Mixtral.
/// Source: Touvron et al., "LLaMA: Open and efficient foundation language models", 2023, section 2.2.
class Llama final : public Model {
 public:
  /// Requires: the shape's (make_model refuses others).
  Llama(const LlamaShape& shape, std::int64_t vocab, const ModelOptions& options);

  at::Tensor logits(const at::Tensor& ids) override;
  Batch random_batch(std::int64_t n_samples, std::uint64_t seed) override;
  bool reads_text() const override { return true; }
  std::int64_t vocabulary() const override { return vocab_; }
  std::int64_t tokens_per_sample() const override { return options_.seq; }

 private:
  const LlamaShape shape_;
  const std::int64_t vocab_;
  const ModelOptions options_;
  std::shared_ptr<TokenEmbedding> tokens_;
  std::vector<std::shared_ptr<LlamaBlock>> blocks_;
  std::shared_ptr<RmsNorm> norm_;
  std::shared_ptr<Linear> head_;
};

}  // namespace castor

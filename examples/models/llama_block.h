// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers.h"

#include <memory>
#include <vector>

namespace castor {

struct LlamaShape {
  std::int64_t layers;    ///< of the whole model: residual projections are initialised smaller by 1/sqrt(2·layers)
  std::int64_t hidden;    ///< a multiple of `heads`, each of an even size
  std::int64_t heads;     ///< a multiple of `kv_heads`
  std::int64_t kv_heads;  ///< heads of keys and values, each for heads / kv_heads heads of queries
  std::int64_t ffn;       ///< elements between the feed-forward layers
  std::int64_t experts;   ///< feed-forward parts of which each token takes two; 1 = all take the one
  double rotary_base;
};

inline constexpr double kRmsEps = 1e-5;

/// Turns pairs of elements of queries and keys by angles that grow with the position.
/// Source: Su et al., "RoFormer: Enhanced transformer with rotary position embedding", 2021; the pairs are
/// (i, i + size/2).
class Rotation {
 public:
  /// For heads of `size` elements. The result has the dtype and device of `options`.
  Rotation(std::int64_t seq, std::int64_t size, double base, const at::TensorOptions& options);
  /// x: [batch, heads, seq, size].
  at::Tensor turn(const at::Tensor& x) const;

 private:
  at::Tensor cos_, sin_;
};

/// down(silu(gate(x)) · up(x)): the feed-forward part, or one expert of it.
/// Source: Shazeer, "GLU variants improve transformer", 2020.
class SwiGlu final : public torch::nn::Module {
 public:
  SwiGlu(const LlamaShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x);

 private:
  std::shared_ptr<Linear> gate_, up_, down_;
};

/// Experts with a router: each token takes the two with the largest logits, weighted by the softmax of these two.
/// Source: Jiang et al., "Mixtral of experts", 2024, section 2.1.
///
/// An expert that no token takes gets gradients of zeros. On the meta device, where no token takes any, all experts get
/// equally many.
class Experts final : public torch::nn::Module {
 public:
  Experts(const LlamaShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x);

 private:
  std::vector<std::int64_t> counts(const at::Tensor& chosen) const;

  std::shared_ptr<Linear> router_;
  std::vector<std::shared_ptr<SwiGlu>> experts_;
};

/// x + attention(norm(x)), then x + feed_forward(norm(x)).
class LlamaBlock final : public torch::nn::Module {
 public:
  LlamaBlock(const LlamaShape& shape, const at::TensorOptions& options);
  /// x and the result: [batch, seq, hidden].
  at::Tensor forward(const at::Tensor& x, const Rotation& rotation);
  const UnitBorder& first_unit() const { return *norm1_; }

 private:
  at::Tensor attend(const at::Tensor& x, const Rotation& rotation);

  const LlamaShape shape_;
  std::shared_ptr<RmsNorm> norm1_, norm2_;
  std::shared_ptr<Linear> query_, key_, value_, out_;
  std::shared_ptr<SwiGlu> feed_forward_;  // one of the two is null
  std::shared_ptr<Experts> experts_;
};

}  // namespace castor

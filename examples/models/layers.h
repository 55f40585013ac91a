// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/unit.h>

#include <ATen/ATen.h>

#include <cstdint>

namespace castor {

/// The building blocks with parameters, one unit each.

/// y = x·Wᵀ + b over the last of two or more dimensions. W is [out, in]; b is optional and starts at zero.
class Linear final : public Unit<> {
 public:
  struct Shape {
    std::int64_t in, out;
    bool bias = true;
  };
  Linear(Shape shape, Init weight, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x);

 private:
  at::Tensor weight_, bias_;
};

/// Normalises the last dimension (Ba, Kiros, Hinton, "Layer normalization", 2016).
class LayerNorm final : public Unit<> {
 public:
  LayerNorm(std::int64_t size, double eps, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x);

 private:
  const double eps_;
  at::Tensor weight_, bias_;
};

/// Divides the last dimension by its root mean square.
/// Source: Zhang and Sennrich, "Root mean square layer normalization", 2019.
class RmsNorm final : public Unit<> {
 public:
  RmsNorm(std::int64_t size, double eps, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x);

 private:
  const double eps_;
  at::Tensor weight_;
};

/// Looks up rows of a table: int64 [batch, seq] to [batch, seq, hidden].
class TokenEmbedding final : public Unit<> {
 public:
  TokenEmbedding(std::int64_t vocab, std::int64_t hidden, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& ids);
  /// [vocab, hidden]
  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_;
};

/// Adds a learned vector per position to x, [batch, seq, hidden] with seq up to `positions`.
class PositionEmbedding final : public Unit<> {
 public:
  PositionEmbedding(std::int64_t positions, std::int64_t hidden, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x);

 private:
  at::Tensor weight_;
};

/// Puts a learned class token before x, [batch, patches, hidden], and adds a learned vector per position.
class ClassToken final : public Unit<> {
 public:
  ClassToken(std::int64_t patches, std::int64_t hidden, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x);

 private:
  at::Tensor token_, positions_;
};

/// x·Wᵀ with the weight of the embedding.
class TiedHead final : public Unit<> {
 public:
  explicit TiedHead(const TokenEmbedding& embedding);
  at::Tensor forward(const at::Tensor& x);

 private:
  at::Tensor weight_;
};

/// The standard deviation of GPT-2's initial weights.
inline constexpr double kWeightStddev = 0.02;

}  // namespace castor

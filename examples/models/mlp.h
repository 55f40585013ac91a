// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/models/model.h>
#include "layers.h"

namespace castor {

struct MlpShape {
  std::int64_t layers;  ///< hidden layers; one more computes the classes
  std::int64_t hidden, features, classes;
};

/// Linear layers with ReLU between them: the smallest model that uses every part of the runtime.
class Mlp final : public Model {
 public:
  Mlp(const MlpShape& shape, const ModelOptions& options);

  at::Tensor logits(const at::Tensor& x) override;
  Batch random_batch(std::int64_t n_samples, std::uint64_t seed) override;

 private:
  at::Tensor hidden(std::size_t layer, const at::Tensor& x);

  const MlpShape shape_;
  const ModelOptions options_;
  std::vector<std::shared_ptr<Linear>> layers_;
  std::shared_ptr<Linear> head_;
};

}  // namespace castor

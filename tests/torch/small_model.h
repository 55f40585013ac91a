// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/unit.h>

#include <ATen/ATen.h>

namespace castor::testing {

/// y = tanh(x·Wᵀ + b): one unit.
class Layer final : public Unit<> {
 public:
  Layer(std::int64_t in, std::int64_t out, const at::TensorOptions& options) : Unit("Layer") {
    weight = declare("weight", {out, in}, options, Init::normal(0.5));
    bias = declare("bias", {out}, options, Init::uniform(0.1));
  }
  at::Tensor forward(const at::Tensor& x) {
    return run(x, [&](const at::Tensor& in) { return at::tanh(at::linear(in, weight, bias)); });
  }
  at::Tensor weight, bias;
};

/// Three layers of 8; parameters 0 to 5: weight and bias of each.
class SmallModel final : public torch::nn::Module {
 public:
  explicit SmallModel(const at::TensorOptions& options = at::TensorOptions(at::kFloat)) {
    for (int i = 0; i < 3; ++i)
      layers.push_back(register_module("layer" + std::to_string(i), std::make_shared<Layer>(8, 8, options)));
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : layers) x = layer->forward(x);
    return x;
  }
  std::vector<std::shared_ptr<Layer>> layers;
};

/// [4, 8] values that do not change from run to run.
inline at::Tensor small_input(const at::TensorOptions& options = at::TensorOptions(at::kFloat)) {
  return at::sin(at::arange(32, at::kFloat)).view({4, 8}).to(options);
}

}  // namespace castor::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/errors.h>
#include "poisoning_strategy.h"
#include "small_model.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace castor::testing {

using Tensors = std::vector<at::Tensor>;

/// A unit with a weight [8, 8] that computes what its test says.
class FreeUnit final : public Unit<> {
 public:
  using Body = std::function<Tensors(const at::Tensor& weight, const Tensors& inputs)>;
  FreeUnit() : Unit("FreeUnit") {
    weight = declare("weight", {8, 8}, at::TensorOptions(at::kFloat), Init::normal(0.5));
  }
  Tensors operator()(const Tensors& inputs, const Body& body) {
    return run(inputs, [&](const Tensors& in) { return body(weight, in); });
  }
  using Unit::share;
  at::Tensor weight;
};

/// Three of them; parameters 0 to 2.
struct WiredUnits final : torch::nn::Module {
  std::shared_ptr<FreeUnit> a = register_module("a", std::make_shared<FreeUnit>());
  std::shared_ptr<FreeUnit> b = register_module("b", std::make_shared<FreeUnit>());
  std::shared_ptr<FreeUnit> c = register_module("c", std::make_shared<FreeUnit>());
};

/// Computes a loss from x [4, 8], which requires a gradient.
using Wiring = std::function<at::Tensor(WiredUnits& units, const at::Tensor& x)>;

/// x·Wᵀ, and the tanh of it: what most units of these tests compute.
inline Tensors product(const at::Tensor& weight, const Tensors& in) { return {at::linear(in.at(0), weight)}; }
inline Tensors curved(const at::Tensor& weight, const Tensors& in) { return {at::tanh(at::linear(in.at(0), weight))}; }

inline at::Tensor wired_input() { return small_input().set_requires_grad(true); }

/// The names of the operators in the graph of `loss`, sorted.
inline std::vector<std::string> operators_of(const at::Tensor& loss) {
  std::vector<std::string> names;
  std::vector<torch::autograd::Node*> todo = {loss.grad_fn().get()}, seen;
  while (!todo.empty()) {
    torch::autograd::Node* const node = todo.back();
    todo.pop_back();
    if (node == nullptr || std::find(seen.begin(), seen.end(), node) != seen.end()) continue;
    seen.push_back(node);
    names.push_back(node->name());
    for (const auto& edge : node->next_edges()) todo.push_back(edge.function.get());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The results of a forward and a backward pass.
struct Outcome {
  at::Tensor loss, x_grad;
  Tensors grads;  ///< by parameter; undefined where there was none
  std::vector<std::string> operators;
};

/// By plain LibTorch, with all weights in place.
inline Outcome plain_outcome(const Wiring& wiring) {
  const auto units = std::make_shared<WiredUnits>();
  const auto adapter = TorchAdapter::make(units, c10::kCPU, {.seed = 5}).value();
  const PlainMemory memory(*adapter);
  const at::Tensor x = wired_input(), loss = wiring(*units, x);
  Outcome outcome = {loss.detach(), {}, {}, operators_of(loss)};
  loss.backward();
  outcome.x_grad = x.grad();
  for (const at::Tensor& parameter : units->parameters()) outcome.grads.push_back(parameter.grad());
  return outcome;
}

/// Units whose weights have memory only while they compute.
struct Poisoned {
  Poisoned() { adapter->connect(strategy.get()); }

  Outcome run(const Wiring& wiring) {
    const at::Tensor x = wired_input(), loss = guard([&] { return wiring(*units, x); }).value();
    Outcome outcome = {loss.detach(), {}, {}, operators_of(loss)};
    adapter->backward(loss).value();
    outcome.x_grad = x.grad();
    for (std::uint32_t param = 0; param < 3; ++param) {
      EXPECT_LE(strategy->grads[param].size(), 1u) << "parameter " << param;
      outcome.grads.push_back(strategy->grads[param].empty() ? at::Tensor() : strategy->grads[param][0]);
    }
    strategy->grads.clear();
    return outcome;
  }

  std::shared_ptr<WiredUnits> units = std::make_shared<WiredUnits>();
  std::unique_ptr<TorchAdapter> adapter = TorchAdapter::make(units, c10::kCPU, {.seed = 5}).value();
  std::unique_ptr<PoisoningStrategy> strategy = std::make_unique<PoisoningStrategy>(*adapter);
};

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || at::equal(a, b));
}

inline void expect_same(const Outcome& found, const Outcome& plain) {
  EXPECT_TRUE(at::isfinite(found.loss).all().item<bool>());
  EXPECT_TRUE(at::equal(found.loss, plain.loss));
  EXPECT_TRUE(same_bits(found.x_grad, plain.x_grad)) << "the gradient of the input";
  for (std::size_t param = 0; param < plain.grads.size(); ++param)
    EXPECT_TRUE(same_bits(found.grads[param], plain.grads[param])) << "parameter " << param;
  EXPECT_EQ(found.operators, plain.operators);
}

/// Losses, gradients and graph of `wiring` are those of plain LibTorch, twice in a row.
inline void expect_as_plain(const Wiring& wiring) {
  const Outcome plain = plain_outcome(wiring);
  Poisoned poisoned;
  expect_same(poisoned.run(wiring), plain);
  expect_same(poisoned.run(wiring), plain);
}

}  // namespace castor::testing

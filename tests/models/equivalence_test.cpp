// SPDX-License-Identifier: Apache-2.0
// Losses and gradients of hooked models, whose parameters are fetched and released, equal those of the plain run to the
// last bit.
#include <castor/models/model.h>
#include <castor/plugins/torch/errors.h>
#include <castor/plugins/torch/runtime.h>
#include "poisoning_strategy.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace castor::testing {
namespace {

struct Case {
  const char* name;
  const char* model;
  DType dtype;
};

struct Outcome {
  at::Tensor loss;
  std::vector<at::Tensor> grads;
};

struct ModelRun {
  ModelRun(const Case& c, bool recompute, c10::Device device)
      : model(make_model(c.model, {c.dtype, device, recompute, 16}).value()) {
    adapter = TorchAdapter::make(model, device, {.seed = 11}).value();
    batch = model->random_batch(2, 3);
  }
  std::shared_ptr<Model> model;
  std::unique_ptr<TorchAdapter> adapter;
  Batch batch;
};

Outcome plain(const Case& c, c10::Device device) {
  ModelRun run(c, /*recompute=*/false, device);
  const PlainMemory memory(*run.adapter, device);
  const at::Tensor loss = run.model->loss(run.batch);
  loss.backward();
  Outcome outcome = {loss.detach(), {}};
  for (const at::Tensor& parameter : run.model->parameters()) outcome.grads.push_back(parameter.grad());
  return outcome;
}

Outcome hooked(const Case& c, bool recompute, c10::Device device) {
  ModelRun run(c, recompute, device);
  PoisoningStrategy strategy(*run.adapter, device);
  run.adapter->connect(&strategy);
  const at::Tensor loss = guard([&] { return run.model->loss(run.batch); }).value();
  run.adapter->backward(loss).value();
  Outcome outcome = {loss.detach(), {}};
  for (std::uint32_t i = 0; i < run.adapter->n_params(); ++i) {
    EXPECT_EQ(strategy.grads[i].size(), 1u) << "gradients of parameter " << i;
    outcome.grads.push_back(strategy.grads[i].at(0));
  }
  return outcome;
}

void expect_same_bits(const Outcome& a, const Outcome& b) {
  EXPECT_TRUE(std::isfinite(a.loss.item<double>()));
  EXPECT_TRUE(at::equal(a.loss, b.loss)) << a.loss.item<double>() << " and " << b.loss.item<double>();
  ASSERT_EQ(a.grads.size(), b.grads.size());
  for (std::size_t i = 0; i < a.grads.size(); ++i) EXPECT_TRUE(at::equal(a.grads[i], b.grads[i])) << "parameter " << i;
}

class Equivalence : public ::testing::TestWithParam<Case> {};

TEST_P(Equivalence, HookedEqualsPlain) {
  expect_same_bits(plain(GetParam(), c10::kCPU), hooked(GetParam(), false, c10::kCPU));
}

TEST_P(Equivalence, RecomputedEqualsPlain) {
  expect_same_bits(plain(GetParam(), c10::kCPU), hooked(GetParam(), true, c10::kCPU));
}

TEST_P(Equivalence, EvaluatedLossEqualsPlain) {
  const Outcome expected = plain(GetParam(), c10::kCPU);
  ModelRun run(GetParam(), /*recompute=*/true, c10::kCPU);
  PoisoningStrategy strategy(*run.adapter);
  run.adapter->connect(&strategy);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(run.model->loss(run.batch), expected.loss));
}

TEST_P(Equivalence, OnAGpuToo) {
  if (!torch_has_cuda()) GTEST_SKIP() << "no GPU";
  set_determinism(true);
  const c10::Device gpu(c10::kCUDA, 0);
  const Outcome expected = plain(GetParam(), gpu);
  expect_same_bits(expected, hooked(GetParam(), false, gpu));
  expect_same_bits(expected, hooked(GetParam(), true, gpu));
  set_determinism(false);
}

/// The names of all operators in the graph of `loss`.
std::set<std::string> operators(const at::Tensor& loss) {
  std::set<std::string> names;
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> todo = {loss.grad_fn().get()};
  while (!todo.empty()) {
    torch::autograd::Node* node = todo.back();
    todo.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    names.insert(node->name());
    for (const auto& edge : node->next_edges()) todo.push_back(edge.function.get());
  }
  return names;
}

TEST_P(Equivalence, NoUnitReturnsAViewThatMustBeCopied) {
  ModelRun run(GetParam(), /*recompute=*/false, c10::kCPU);
  PoisoningStrategy strategy(*run.adapter);
  run.adapter->connect(&strategy);
  const std::set<std::string> names = operators(run.model->loss(run.batch));
  const auto is_product = [](const std::string& name) {
    // Which one it is depends on the bias and on the CPU.
    return name == "AddmmBackward0" || name == "MmBackward0" || name.find("WidenedAffine") != std::string::npos;
  };
  EXPECT_TRUE(std::any_of(names.begin(), names.end(), is_product));
  EXPECT_FALSE(names.contains("CloneBackward0"));
}

INSTANTIATE_TEST_SUITE_P(
    Models, Equivalence,
    ::testing::Values(
        Case{"gpt_tied_fp32", "gpt:layers=2,hidden=32,heads=2,vocab=61,tied=1", DType::f32},
        Case{"gpt_tied_bf16", "gpt:layers=2,hidden=32,heads=2,vocab=61,tied=1", DType::bf16},
        Case{"gpt_untied_fp32", "gpt:layers=2,hidden=32,heads=2,vocab=61,tied=0", DType::f32},
        Case{"gpt_untied_bf16", "gpt:layers=2,hidden=32,heads=2,vocab=61,tied=0", DType::bf16},
        Case{"llama_fp32", "llama:layers=2,hidden=32,heads=4,kv_heads=2,ffn=48,vocab=61", DType::f32},
        Case{"llama_bf16", "llama:layers=2,hidden=32,heads=4,kv_heads=2,ffn=48,vocab=61", DType::bf16},
        Case{"mixtral_fp32", "mixtral:layers=2,hidden=32,heads=4,kv_heads=4,ffn=48,vocab=61,experts=4", DType::f32},
        Case{"mixtral_bf16", "mixtral:layers=2,hidden=32,heads=4,kv_heads=4,ffn=48,vocab=61,experts=4", DType::bf16},
        Case{"vit_fp32", "vit:layers=2,hidden=32,heads=2,patch=56,classes=7", DType::f32},
        Case{"vit_bf16", "vit:layers=2,hidden=32,heads=2,patch=56,classes=7", DType::bf16},
        Case{"mlp_fp32", "mlp:layers=2,hidden=16", DType::f32},
        Case{"mlp_bf16", "mlp:layers=2,hidden=16", DType::bf16}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace castor::testing

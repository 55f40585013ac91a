// SPDX-License-Identifier: Apache-2.0
// Estimates against trainings on the host: the same calls, and the same peaks of the tiers.
#include <castor/plugins/torch/estimate.h>

#include <castor/models/model.h>
#include <castor/plugins/torch/errors.h>
#include <castor/plugins/torch/on_meta.h>
#include <castor/plugins/torch/record_step.h>
#include <castor/plugins/torch/unit.h>
#include "poisoning_strategy.h"

#include <gtest/gtest.h>

#include <torch/nn/modules.h>

#include <algorithm>
#include <string>
#include <vector>

namespace castor::testing {
namespace {

using namespace literals;

struct EstimatedModel {
  const char* name;
  const char* spelled;
  bool recompute = false;
  std::uint64_t device_bytes = 256 << 10;  ///< hardly more than the largest unit
};

std::shared_ptr<Model> build(const EstimatedModel& which, c10::Device device) {
  return make_model(which.spelled, {DType::bf16, device, which.recompute, 32}).value();
}

/// The calls of a step, as PoisoningStrategy logs them.
std::vector<std::string> log_of(const RecordedStep& step) {
  constexpr const char* kNames[] = {"before_forward", "before_backward", "after_forward",
                                    "after_backward", "gradient",        "keep",
                                    "recall",         "forget",          "",
                                    "end_of_backward"};
  std::vector<std::string> log;
  for (const RecordedCall& call : step.calls) {
    const auto kind = call.call.kind;
    if (kind == StepCall::Kind::announce) continue;
    const bool of_kept = kind >= StepCall::Kind::keep && kind <= StepCall::Kind::forget;  // numbered from 1 on there
    const std::string id = kind == StepCall::Kind::end_of_backward ? "" : " " + std::to_string(call.call.id + of_kept);
    log.push_back(kNames[static_cast<int>(kind)] + id);
  }
  return log;
}

/// With the gradients between two other calls in the order of their numbers: where the CPU lacks instructions for 16
/// bits the models compute in 32, by other operators than on the meta device, and autograd finishes them in another order.
std::vector<std::string> in_order(std::vector<std::string> log) {
  const auto is_gradient = [](const std::string& call) { return call.starts_with("gradient"); };
  for (auto first = log.begin(); first != log.end();) {
    first = std::find_if(first, log.end(), is_gradient);
    const auto last = std::find_if_not(first, log.end(), is_gradient);
    std::sort(first, last);
    first = last;
  }
  return log;
}

class EstimatedModels : public ::testing::TestWithParam<EstimatedModel> {};

TEST_P(EstimatedModels, MakeTheCallsThatTheyMakeInTraining) {
  const auto trained = build(GetParam(), c10::kCPU);
  const auto adapter = TorchAdapter::make(trained, c10::kCPU).value();
  PoisoningStrategy strategy(*adapter);
  strategy.keeps = true;
  adapter->connect(&strategy);
  const at::Tensor loss = guard([&] { return trained->loss(trained->random_batch(2, 1)); }).value();
  adapter->backward(loss).value();

  const auto meta = build(GetParam(), c10::kMeta);
  const RecordedStep step = record_step(meta, [&] { return meta->loss(meta->random_batch(2, 1)); },
                                        {.is_unit = nullptr, .keeps_inputs = true})
                                .value();
  EXPECT_EQ(in_order(log_of(step)), in_order(strategy.log));
}

/// The first step of a training has other evictions than those after it, so both make several.
TEST_P(EstimatedModels, TakeTheTiersThatTheirTrainingTakes) {
  const Gemini plugin{
      .device_budget = GetParam().device_bytes, .host_budget = 16_MiB, .set = {{"chunk_bytes", "65536"}}};
  const auto trained = build(GetParam(), c10::kCPU);
  Session session = boost(trained, plugin, AdamW{}).value();
  for (int i = 0; i < 10; ++i) {
    session.backward(guard([&] { return trained->loss(trained->random_batch(2, 1)); }).value()).value();
    session.step().value();
  }
  const RunStats run = session.stats().value();

  const auto meta = build(GetParam(), c10::kMeta);
  ForecastMachine host;
  host.kind = DeviceKind::cpu;
  const Forecast found = estimate(
                             meta, [&] { return meta->loss(meta->random_batch(2, 1)); }, plugin, AdamW{}, host)
                             .value();
  EXPECT_EQ(found.n_params, session.n_params());
  EXPECT_EQ(found.peak_bytes[index(Tier::device)], run.peak_bytes[index(Tier::device)]);
  EXPECT_EQ(found.peak_bytes[index(Tier::host)], run.peak_bytes[index(Tier::host)]);
}

INSTANTIATE_TEST_SUITE_P(
    Models, EstimatedModels,
    ::testing::Values(EstimatedModel{"gpt", "gpt:layers=2,hidden=64,heads=4,vocab=128,tied=1"},
                      EstimatedModel{"gpt_recomputed", "gpt:layers=2,hidden=64,heads=4,vocab=128,tied=0", true},
                      EstimatedModel{"llama", "llama:layers=2,hidden=64,heads=4,kv_heads=2,ffn=96,vocab=128"},
                      EstimatedModel{"mixtral_recomputed",
                                     "mixtral:layers=2,hidden=64,heads=4,kv_heads=2,ffn=48,vocab=128,experts=4", true},
                      EstimatedModel{"vit", "vit:layers=2,hidden=64,heads=4,patch=56,classes=16", false, 1280 << 10},
                      EstimatedModel{"mlp", "mlp:layers=3,hidden=128"}),
    [](const auto& info) { return std::string(info.param.name); });

constexpr EstimatedModel kTiny = {"gpt", "gpt:layers=2,hidden=64,heads=4,vocab=128,tied=1"};

Result<Forecast> estimate_tiny(const Gemini& plugin, const SessionOptions& options = {}) {
  const auto meta = build(kTiny, c10::kMeta);
  return estimate(
      meta, [&] { return meta->loss(meta->random_batch(2, 1)); }, plugin, AdamW{}, {}, options);
}

TEST(Estimate, RefusesTheOptionsThatBoostRefuses) {
  EXPECT_EQ(estimate_tiny({.set = {{"no_such_option", "1"}}}).error().kind, ErrorKind::usage);
  EXPECT_EQ(estimate_tiny({.placement_policy = "const", .set = {{"offload_param_frac", "0.5"}}}).error().kind,
            ErrorKind::usage);
  SessionOptions none;
  none.micro_batches = 0;
  EXPECT_EQ(estimate_tiny({}, none).error().kind, ErrorKind::usage);
}

TEST(Estimate, AStepOfSeveralMicroBatchesComputesAsOften) {
  const Gemini plugin{.device_budget = 4_GiB, .host_budget = 4_GiB};
  SessionOptions three;
  three.micro_batches = 3;
  const Forecast once = estimate_tiny(plugin).value(), thrice = estimate_tiny(plugin, three).value();
  EXPECT_NEAR(thrice.step.compute_s - thrice.update_s, 3 * (once.step.compute_s - once.update_s), 1e-9);
}

/// LibTorch's own layers as units.
struct Layers final : torch::nn::Module {
  Layers() {
    add<torch::nn::Conv2dImpl>(torch::nn::Conv2dOptions(3, 32, 3).padding(1).stride(2));
    add<torch::nn::BatchNorm2dImpl>(32);
    layers->push_back(torch::nn::GELU());
    layers->push_back(torch::nn::Flatten());
    add<torch::nn::LinearImpl>(32 * 16 * 16, 24);
    add<torch::nn::LayerNormImpl>(torch::nn::LayerNormOptions({24}));
    add<torch::nn::LinearImpl>(24, 4096);
    register_module("layers", layers);
  }
  template <typename M, typename... Args>
  void add(Args&&... args) {
    layers->push_back(std::make_shared<Unit<M>>(std::forward<Args>(args)...));
  }
  at::Tensor loss() { return layers->forward(at::ones({2, 3, 32, 32})).square().mean(); }
  torch::nn::Sequential layers;
};

TEST(Estimate, OfLibTorchsOwnLayersIsThatOfTheirTraining) {
  const Gemini plugin{.device_budget = 1536_KiB, .host_budget = 16_MiB, .set = {{"chunk_bytes", "65536"}}};
  const auto trained = std::make_shared<Layers>();
  Session session = boost(trained, plugin, AdamW{}).value();
  for (int i = 0; i < 10; ++i) {
    session.backward(guard([&] { return trained->loss(); }).value()).value();
    session.step().value();
  }
  const RunStats run = session.stats().value();

  const OnMeta guard_of_factories;
  const auto meta = std::make_shared<Layers>();
  ForecastMachine host;
  host.kind = DeviceKind::cpu;
  const auto found = estimate(
      meta, [&] { return meta->loss(); }, plugin, AdamW{}, host);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->n_params, session.n_params());
  for (const Tier tier : {Tier::device, Tier::host})
    EXPECT_EQ(found->peak_bytes[index(tier)], run.peak_bytes[index(tier)]);
}

/// In the warm-up every weight comes over the link while a gradient leaves. Then most weights stay, and with so few
/// tokens backward is faster than the link.
TEST(Estimate, GradientsThatComeFasterThanInTheWarmUpKeepWithinTheBudget) {
  const auto meta = make_model("llama2-7b", {DType::bf16, c10::kMeta, false, 512}).value();
  const Gemini plugin{.device_budget = 40_GiB, .host_budget = 128_GiB};
  const Forecast found =
      estimate(meta, [&] { return meta->loss(meta->random_batch(1, 1)); }, plugin, AdamW{}, {}).value();
  EXPECT_LT(found.non_model_bytes, 4_GiB);
  EXPECT_LE(found.peak_bytes[index(Tier::device)], 40_GiB);
}

TEST(Estimate, UpdatesAreSpeculativeOnlyWhereANormIsNeeded) {
  const Gemini plugin{.device_budget = 1_GiB, .host_budget = 4_GiB, .placement_policy = "cpu"};
  SessionOptions clipped;
  clipped.max_norm = 1;
  EXPECT_EQ(estimate_tiny(plugin).value().n_speculative, 0u);
  EXPECT_GT(estimate_tiny(plugin, clipped).value().n_speculative, 0u);
}

}  // namespace
}  // namespace castor::testing

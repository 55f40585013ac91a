// SPDX-License-Identifier: Apache-2.0
// LLaMA and Mixtral learn, and a tight budget gives the weights of the resident run to the last bit.
#include <castor/models/model.h>
#include <castor/plugins/torch/errors.h>
#include <castor/plugins/torch/session.h>
#include "llama_block.h"
#include "poisoning_strategy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace castor::testing {
namespace {

using namespace literals;

struct TrainedModel {
  const char* name;
  const char* spelled;
  bool recompute;
};

struct TrainedRun {
  std::vector<double> losses;
  std::string digest;
};

/// Twelve steps on one batch.
TrainedRun train(const TrainedModel& which, const StrategyChoice& choice) {
  const auto model = make_model(which.spelled, {DType::bf16, c10::kCPU, which.recompute, 24}).value();
  Session session = boost(model, choice, AdamW{.lr = 3e-3}, {.seed = 5, .max_norm = 1}).value();
  const Batch batch = model->random_batch(4, 9);
  TrainedRun run;
  for (int i = 0; i < 12; ++i) {
    const at::Tensor loss = guard([&] { return model->loss(batch); }).value();
    session.backward(loss).value();
    session.step().value();
    run.losses.push_back(loss.item<double>());
  }
  run.digest = session.digest().value();
  return run;
}

class LlamaTraining : public ::testing::TestWithParam<TrainedModel> {};

TEST_P(LlamaTraining, LearnsTheSameUnderATightBudget) {
  const TrainedRun resident = train(GetParam(), Resident{});
  const TrainedRun tight =
      train(GetParam(), Gemini{.device_budget = 192_KiB, .host_budget = 8_MiB, .set = {{"chunk_bytes", "32768"}}});
  EXPECT_EQ(tight.losses, resident.losses);
  EXPECT_EQ(tight.digest, resident.digest);
  EXPECT_LT(resident.losses.back(), resident.losses.front() - 1);
}

INSTANTIATE_TEST_SUITE_P(
    Models, LlamaTraining,
    ::testing::Values(
        TrainedModel{"llama", "llama:layers=2,hidden=64,heads=4,kv_heads=2,ffn=96,vocab=128", false},
        TrainedModel{"llama_recomputed", "llama:layers=2,hidden=64,heads=4,kv_heads=4,ffn=96,vocab=128", true},
        TrainedModel{"mixtral", "mixtral:layers=2,hidden=64,heads=4,kv_heads=2,ffn=48,vocab=128,experts=4", false},
        TrainedModel{"mixtral_recomputed", "mixtral:layers=2,hidden=64,heads=4,kv_heads=2,ffn=48,vocab=128,experts=4",
                     true}),
    [](const auto& info) { return std::string(info.param.name); });

/// Written out token by token, in float64.
TEST(Experts, EachTokenTakesItsTwoBestWeightedByTheirSoftmax) {
  const LlamaShape shape = {
      .layers = 1, .hidden = 8, .heads = 1, .kv_heads = 1, .ffn = 6, .experts = 3, .rotary_base = 1};
  const auto experts = std::make_shared<Experts>(shape, at::TensorOptions(at::kFloat));
  const auto adapter = TorchAdapter::make(experts, c10::kCPU, {.seed = 3}).value();
  const PlainMemory memory(*adapter, c10::kCPU);
  const auto params = experts->named_parameters();
  for (const auto& param : params) param.value().detach().mul_(40);  // so that the router has clear favourites
  const auto product = [&](const std::string& name, const at::Tensor& in) {
    return at::mv(params[name + ".weight"].detach().to(at::kDouble), in);
  };

  const at::Tensor x = at::randn({2, 5, 8});
  const at::Tensor found = experts->forward(x).detach();
  std::vector<at::Tensor> expected;
  for (const at::Tensor& token : x.view({10, 8}).to(at::kDouble).unbind()) {
    const at::Tensor logits = product("router", token);
    std::vector<std::pair<double, int>> ranked;
    for (int e = 0; e < 3; ++e) ranked.emplace_back(-logits[e].item<double>(), e);
    std::sort(ranked.begin(), ranked.end());
    const double first = std::exp(-ranked[0].first), second = std::exp(-ranked[1].first);
    at::Tensor sum = at::zeros({8}, at::kDouble);
    for (const auto& [share, e] : {std::pair(first, ranked[0].second), std::pair(second, ranked[1].second)}) {
      const std::string expert = "expert" + std::to_string(e);
      const at::Tensor gate = product(expert + ".gate", token), up = product(expert + ".up", token);
      sum += share / (first + second) * product(expert + ".down", gate / (1 + at::exp(-gate)) * up);
    }
    expected.push_back(sum);
  }
  EXPECT_TRUE(at::allclose(found.view({10, 8}).to(at::kDouble), at::stack(expected), 1e-4, 1e-5));
}

TEST(Rotation, TurnsPairsByAnglesThatGrowWithThePosition) {
  constexpr double kBase = 100;
  const Rotation rotation(3, 4, kBase, at::TensorOptions(at::kFloat));
  const at::Tensor x = at::tensor({1.0F, 2.0F, 3.0F, 4.0F}).expand({1, 1, 3, 4});
  const at::Tensor turned = rotation.turn(x);
  for (int position = 0; position < 3; ++position)
    for (int pair = 0; pair < 2; ++pair) {
      const double angle = position * std::pow(kBase, -2.0 * pair / 4), a = 1 + pair, b = 3 + pair;
      EXPECT_NEAR(turned[0][0][position][pair].item<double>(), a * std::cos(angle) - b * std::sin(angle), 1e-5);
      EXPECT_NEAR(turned[0][0][position][pair + 2].item<double>(), b * std::cos(angle) + a * std::sin(angle), 1e-5);
    }
}

}  // namespace
}  // namespace castor::testing

// SPDX-License-Identifier: Apache-2.0
// Frozen parameters of dtypes in which nothing is trained: a quantised base under trained layers.
#include <castor/plugins/torch/session.h>

#include <gtest/gtest.h>

#include <castor/plugins/torch/runtime.h>
#include <castor/plugins/torch/unit.h>

#include "../support/scratch_folder.h"
#include "small_model.h"

namespace castor::testing {
namespace {

using namespace literals;
using test::ScratchFolder;

constexpr std::int64_t kWidth = 96;

/// y = tanh(x·(scale·codes)ᵀ + shift) with int8 codes and fp64 scales, both frozen.
class QuantisedLayer final : public Unit<> {
 public:
  QuantisedLayer(std::int64_t seed, const at::TensorOptions& options) : Unit("QuantisedLayer") {
    const at::Tensor numbers =
        at::arange(kWidth * kWidth, options.dtype(at::kLong)).mul(7 + 2 * seed).remainder(251).sub(125);
    codes = register_parameter("codes", numbers.view({kWidth, kWidth}).to(at::kChar), /*requires_grad=*/false);
    const at::Tensor steps = at::arange(1, kWidth + 1, options.dtype(at::kDouble)).view({kWidth, 1});
    scale = register_parameter("scale", steps.reciprocal() / 16, /*requires_grad=*/false);
    shift = declare("shift", {kWidth}, options.dtype(at::kBFloat16), Init::uniform(0.1));
  }
  at::Tensor forward(const at::Tensor& x) {
    return run(x, [&](const at::Tensor& in) {
      return at::tanh(at::linear(in, (codes.to(at::kDouble) * scale).to(at::kBFloat16), shift));
    });
  }
  at::Tensor codes, scale, shift;
};

struct QuantisedModel final : torch::nn::Module {
  explicit QuantisedModel(c10::Device device = c10::kCPU) {
    for (std::int64_t i = 0; i < 4; ++i)
      layers.push_back(register_module("layer" + std::to_string(i), std::make_shared<QuantisedLayer>(i, device)));
  }
  std::vector<std::shared_ptr<QuantisedLayer>> layers;
};

struct QuantisedRun {
  explicit QuantisedRun(const StrategyChoice& choice, c10::Device device = c10::kCPU)
      : model(std::make_shared<QuantisedModel>(device)), session(boost(model, choice, AdamW{.lr = 0.01}).value()) {}
  double step() {
    const at::TensorOptions weights = model->layers[0]->shift.options().requires_grad(false);
    at::Tensor x = at::sin(at::arange(4 * kWidth, weights.dtype(at::kFloat))).view({4, kWidth}).to(at::kBFloat16);
    for (const auto& layer : model->layers) x = layer->forward(x);
    const at::Tensor loss = (x.to(at::kFloat) - 0.3).square().mean();
    session.backward(loss).value();
    session.step().value();
    return loss.item<double>();
  }
  std::vector<double> steps(int n) {
    std::vector<double> losses;
    for (int i = 0; i < n; ++i) losses.push_back(step());
    return losses;
  }

  std::shared_ptr<QuantisedModel> model;
  Session session;
};

/// The device holds two layers' codes, the host no more than the four, and the drive all.
Gemini two_layers_at_once(const ScratchFolder& folder) {
  return {.device_budget = 24_KiB,
          .host_budget = 64_KiB,
          .nvme = {folder.path()},
          .nvme_offload_fraction = 1,
          .set = {{"chunk_bytes", "12KiB"}}};
}

TEST(OpaqueParameters, TrainWithTheBitsOfTheResidentRunAndStayAsTheyAre) {
  const QuantisedModel fresh;
  const ScratchFolder nvme;
  QuantisedRun resident(castor::Resident{}), moved(two_layers_at_once(nvme));
  const auto losses = resident.steps(5);
  EXPECT_EQ(moved.steps(5), losses);
  EXPECT_LT(losses.back(), 0.9 * losses.front());
  EXPECT_EQ(moved.session.digest().value(), resident.session.digest().value());
  EXPECT_LT(moved.session.stats()->peak_bytes[index(Tier::device)], 4u * kWidth * kWidth) << "not all codes at once";
  for (QuantisedRun* run : {&resident, &moved})
    for (std::size_t i = 0; i < fresh.layers.size(); ++i) {
      const std::string layer = "layer" + std::to_string(i);
      EXPECT_TRUE(at::equal(run->session.read_master(layer + ".codes").value(), fresh.layers[i]->codes)) << layer;
      EXPECT_TRUE(at::equal(run->session.read_master(layer + ".scale").value(), fresh.layers[i]->scale)) << layer;
    }
}

TEST(OpaqueParameters, OnAGpuToo) {
  if (!torch_has_cuda()) GTEST_SKIP() << "no GPU";
  const c10::Device gpu(c10::kCUDA, c10::DeviceIndex{0});
  const ScratchFolder nvme;
  QuantisedRun resident(castor::Resident{}, gpu);
  QuantisedRun moved({Gemini{.device_budget = 256_MiB,
                             .host_budget = 1_MiB,
                             .nvme = {nvme.path()},
                             .nvme_offload_fraction = 1,
                             .set = {{"chunk_bytes", "12KiB"}}}},
                     gpu);
  EXPECT_EQ(moved.steps(5), resident.steps(5));
  EXPECT_EQ(moved.session.digest().value(), resident.session.digest().value());
  const QuantisedModel fresh;
  EXPECT_TRUE(at::equal(moved.session.read_master("layer3.codes").value(), fresh.layers[3]->codes));
}

TEST(OpaqueParameters, AResumedRunIsTheUninterruptedOne) {
  QuantisedRun whole(castor::Resident{});
  const auto losses = whole.steps(6);
  const ScratchFolder nvme, other;
  for (const bool commits : {false, true}) {
    const ScratchFolder saved, drive;
    Gemini kept = two_layers_at_once(commits ? saved : drive);
    if (commits) kept.durability = Durability::commit;
    {
      QuantisedRun first(kept);
      first.steps(3);
      (commits ? first.session.save() : first.session.save(saved.path())).value();
    }
    for (const StrategyChoice& choice :
         {StrategyChoice(castor::Resident{}), StrategyChoice(two_layers_at_once(other))}) {
      QuantisedRun rest(choice);
      rest.session.resume({saved.path()}).value();
      EXPECT_EQ(rest.steps(3), std::vector<double>(losses.begin() + 3, losses.end())) << commits;
      EXPECT_EQ(rest.session.digest().value(), whole.session.digest().value()) << commits;
    }
  }
}

TEST(OpaqueParameters, ACheckpointHasTheirValues) {
  const ScratchFolder saved, nvme;
  std::string digest;
  {
    QuantisedRun first(castor::Resident{});
    first.step();
    first.session.save(saved.path()).value();
    digest = first.session.digest().value();
  }
  for (const StrategyChoice& choice : {StrategyChoice(castor::Resident{}), StrategyChoice(two_layers_at_once(nvme))}) {
    const auto model = std::make_shared<QuantisedModel>();
    model->layers[2]->codes.fill_(1);
    model->layers[3]->scale.fill_(2);
    Session session = boost(model, choice, AdamW{}).value();
    EXPECT_NE(session.digest().value(), digest);
    session.resume({saved.path()}).value();
    EXPECT_EQ(session.digest().value(), digest);
  }
}

TEST(OpaqueParameters, OfAnotherWidthAreRefusedAtResume) {
  const ScratchFolder saved;
  {
    QuantisedRun first(castor::Resident{});
    first.step();
    first.session.save(saved.path()).value();
  }
  const auto model = std::make_shared<QuantisedModel>();
  at::Tensor& codes = model->layers[1]->codes;
  codes.set_data(codes.to(at::kShort));
  const auto refused = boost(model, castor::Resident{}, AdamW{}, {.resume_from = {saved.path()}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_NE(refused.error().message.find("layer1.codes"), std::string::npos) << refused.error().message;
}

}  // namespace
}  // namespace castor::testing

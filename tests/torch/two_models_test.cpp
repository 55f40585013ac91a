// SPDX-License-Identifier: Apache-2.0
// Two models of LibTorch in one process, each with an engine of its own, against plain torch.
#include <castor/engine/engine.h>
#include <castor/plugins/torch/errors.h>
#include "poisoning_strategy.h"
#include "small_model.h"

#include <gtest/gtest.h>

namespace castor::testing {
namespace {

constexpr double kLearningRate = 0.125;
constexpr int kSteps = 3;

at::Tensor loss_of(SmallModel& model) { return model.forward(small_input()).square().sum(); }

/// A model whose parameters are chunks of an engine, under SGD.
struct Trained {
  explicit Trained(std::uint64_t seed) : adapter(TorchAdapter::make(model, c10::kCPU, {.seed = seed}).value()) {
    EngineOptions options;
    options.format.keeps_exp_avg_sq = false;
    options.update_threads = 1;
    options.chunk_bytes = 512;           // each layer moves by itself
    options.device_budget_bytes = 2048;  // of one layer
    engine = Engine::make(adapter->host(), options).value();
    engine->attach().value();
    adapter->connect(engine.get());
  }
  ~Trained() { adapter->connect(nullptr); }

  at::Tensor forward() {
    return guard([&] { return loss_of(*model); }).value();
  }
  void step() const {
    castor_step_args args{};
    args.struct_size = sizeof args;
    args.optimizer = CASTOR_SGD;
    args.lr = kLearningRate, args.loss_scale = 1;
    engine->step(args).value();
  }
  at::Tensor master(std::uint32_t param) const {
    const at::Tensor found = at::empty(model->parameters()[param].sizes(), at::kFloat);
    engine->read_master(param, found.mutable_data_ptr<float>()).value();
    return found;
  }

  std::shared_ptr<SmallModel> model = std::make_shared<SmallModel>();
  std::unique_ptr<TorchAdapter> adapter;
  std::unique_ptr<Engine> engine;
};

/// The parameters of a model of `seed` after kSteps steps of w -= lr * grad by plain torch.
std::vector<at::Tensor> by_plain_torch(std::uint64_t seed) {
  const auto model = std::make_shared<SmallModel>();
  const auto adapter = TorchAdapter::make(model, c10::kCPU, {.seed = seed}).value();
  const PlainMemory memory(*adapter);
  for (int step = 0; step < kSteps; ++step) {
    loss_of(*model).backward();
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : model->parameters()) {
      parameter.sub_(parameter.grad(), kLearningRate);
      parameter.mutable_grad().reset();
    }
  }
  std::vector<at::Tensor> values;
  for (const at::Tensor& parameter : model->parameters()) values.push_back(parameter.detach().clone());
  return values;
}

TEST(TwoModels, TrainInterleavedAsByPlainTorch) {
  Trained one(5), other(6);
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor loss = one.forward(), other_loss = other.forward();
    ASSERT_TRUE(other.adapter->backward(other_loss).ok());
    ASSERT_TRUE(one.adapter->backward(loss).ok());
    one.step();
    other.step();
  }
  const auto expected = by_plain_torch(5), other_expected = by_plain_torch(6);
  for (std::uint32_t param = 0; param < 6; ++param) {
    EXPECT_TRUE(at::allclose(one.master(param), expected[param], 1e-5, 1e-6)) << "parameter " << param;
    EXPECT_TRUE(at::allclose(other.master(param), other_expected[param], 1e-5, 1e-6)) << "parameter " << param;
    EXPECT_FALSE(at::allclose(expected[param], other_expected[param], 1e-3, 1e-3)) << "the models differ";
  }
}

TEST(TwoModels, OneTrainsOnAfterTheOtherIsGone) {
  Trained one(5);
  {
    Trained other(6);
    ASSERT_TRUE(other.adapter->backward(other.forward()).ok());
    other.step();
  }
  for (int step = 0; step < kSteps; ++step) {
    ASSERT_TRUE(one.adapter->backward(one.forward()).ok());
    one.step();
  }
  const auto expected = by_plain_torch(5);
  for (std::uint32_t param = 0; param < 6; ++param)
    EXPECT_TRUE(at::allclose(one.master(param), expected[param], 1e-5, 1e-6)) << "parameter " << param;
}

TEST(TwoModels, ARetainedGraphUpdatesByTwiceTheGradient) {
  Trained run(5);
  const at::Tensor loss = run.forward();
  guard([&] { loss.backward({}, /*retain_graph=*/true); }).value();
  run.engine->end_of_backward().value();
  ASSERT_TRUE(run.adapter->backward(loss).ok());
  run.step();
  const auto model = std::make_shared<SmallModel>();
  const auto adapter = TorchAdapter::make(model, c10::kCPU, {.seed = 5}).value();
  const PlainMemory memory(*adapter);
  const at::Tensor plain_loss = loss_of(*model);
  plain_loss.backward({}, /*retain_graph=*/true);
  plain_loss.backward();  // adds to the first
  for (std::uint32_t param = 0; param < 6; ++param) {
    const at::Tensor plain = model->parameters()[param];
    EXPECT_TRUE(at::allclose(run.master(param), plain.detach() - kLearningRate * plain.grad(), 1e-5, 1e-6)) << param;
  }
}

}  // namespace
}  // namespace castor::testing

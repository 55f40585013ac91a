// SPDX-License-Identifier: Apache-2.0
// Uses of models beside plain steps: frozen and shared parameters, units used twice, evaluation, passes that end in the
// middle. Every parameter is 512 B in a chunk of its own, and the device holds two.
#include <castor/plugins/booster.h>

#include <gtest/gtest.h>

#include "fake_model_host.h"

namespace castor {
namespace {

using test::FakeModelHost;
using test::FakeParam;
using test::FakeUnit;

constexpr std::int64_t kNumel = 256;
const std::vector<float> kGrad(kNumel, 0.5f);

FakeParam param(const std::string& name, float value, bool trainable = true) {
  return {name, {kNumel}, test::kBf16, std::vector<float>(kNumel, value), trainable};
}

class GeminiUses : public ::testing::Test {
 protected:
  static Result<std::unique_ptr<Strategy>> boost(FakeModelHost& model) {
    const Plugin plugin = PluginLoader("", {}).load(GEMINI).value();
    return Booster::make(plugin, {{"device_budget", "1024"}, {"chunk_bytes", "512"}}).value().boost(model);
  }

  static void forward(Strategy& strategy, const FakeModelHost& model, std::uint32_t unit, std::uint32_t param,
                      float weight) {
    strategy.before_forward(unit).value();
    EXPECT_EQ(model.weights(param), std::vector<float>(kNumel, weight)) << "unit " << unit;
    strategy.after_forward(unit).value();
  }

  static castor_step_result step(Strategy& strategy) {
    castor_step_args args{};
    args.struct_size = sizeof args;
    args.optimizer = CASTOR_ADAMW;
    args.lr = 0.5, args.beta1 = 0.9, args.beta2 = 0.99, args.eps = 1e-8, args.loss_scale = 1;
    return strategy.step(args).value();
  }

  static float master(Strategy& strategy, std::uint32_t param) {
    std::vector<float> values(kNumel);
    strategy.read_master(param, values.data()).value();
    return values[kNumel - 1];
  }
};

TEST_F(GeminiUses, AStepThatBrokeOffIsAbandonedAndTakenAgain) {
  const auto backward = [](Strategy& strategy, FakeModelHost& model, std::uint32_t unit, float value) {
    strategy.before_backward(unit).value();
    strategy.gradient(unit, model.make_gradient(unit, std::vector<float>(kNumel, value))).value();
    strategy.after_backward(unit).value();
  };
  std::vector<float> masters;
  for (const bool breaks_off : {false, true}) {
    FakeModelHost model({param("w", 1), param("v", 2)}, {{"a", {0}}, {"b", {1}}});
    auto strategy = boost(model).value();
    for (int i = 0; i < 3; ++i) {
      if (breaks_off) {
        strategy->before_forward(0).value();
        backward(*strategy, model, 1, 3);  // and the model throws
        strategy->discard_gradients().value();
      }
      backward(*strategy, model, 1, 0.5f);
      backward(*strategy, model, 0, -0.25f);
      strategy->end_of_backward().value();
      step(*strategy);
    }
    for (const std::uint32_t param : {0, 1}) masters.push_back(master(*strategy, param));
    strategy.reset();  // the last gradients may be read until then
    EXPECT_EQ(model.n_live_gradients(), 0);
  }
  EXPECT_EQ(masters[0], masters[2]);
  EXPECT_EQ(masters[1], masters[3]);
}

TEST_F(GeminiUses, FrozenParametersKeepTheirValueAndTheOthersTrain) {
  FakeModelHost model({param("w", 1), param("frozen", 2, false)}, {{"a", {0}}, {"b", {1}}});
  const auto strategy = boost(model).value();
  for (int i = 0; i < 3; ++i) {
    strategy->before_forward(0).value();
    strategy->after_forward(0).value();
    forward(*strategy, model, 1, 1, 2);
    strategy->before_backward(0).value();
    strategy->gradient(0, model.make_gradient(0, kGrad)).value();
    strategy->end_of_backward().value();
    step(*strategy);
  }
  EXPECT_LT(master(*strategy, 0), 0.0f) << "three steps of about 0.5 down from 1";
  EXPECT_EQ(master(*strategy, 1), 2.0f);
}

TEST_F(GeminiUses, AModelWithoutAnythingToTrainRuns) {
  FakeModelHost model({param("frozen", 2, false)}, {{"a", {0}}});
  const auto strategy = boost(model).value();
  for (int i = 0; i < 2; ++i) {
    forward(*strategy, model, 0, 0, 2);
    strategy->end_of_backward().value();
    step(*strategy);
  }
  EXPECT_EQ(master(*strategy, 0), 2.0f);
}

TEST_F(GeminiUses, TwoUnitsThatStayOpenMayShareAParameter) {
  FakeModelHost model({param("table", 1)}, {{"encoder", {0}}, {"decoder", {0}}});
  const auto strategy = boost(model).value();
  for (const std::uint32_t unit : {0, 1}) forward(*strategy, model, unit, 0, 1);
  for (const std::uint32_t unit : {1, 0})
    strategy->before_backward(unit).value();  // token ids have no gradient, so no after_backward
  strategy->gradient(0, model.make_gradient(0, kGrad)).value();
  strategy->end_of_backward().value();
  step(*strategy);
  EXPECT_LT(master(*strategy, 0), 1.0f);
}

TEST_F(GeminiUses, AUnitUsedTwiceIsReleasedAfterBackward) {
  FakeModelHost model({param("table", 1), param("x", 2), param("y", 3)},
                      {{"table", {0}}, {"x", {1}}, {"y", {2}}, {"both", {1, 2}}});
  const auto strategy = boost(model).value();
  for (const std::uint32_t unit : {0, 0, 1}) forward(*strategy, model, unit, unit, static_cast<float>(unit + 1));
  for (int use = 0; use < 2; ++use) strategy->before_backward(0).value();
  strategy->end_of_backward().value();
  EXPECT_TRUE(strategy->before_forward(3).ok()) << "the two parameters of this unit are all that the device holds";
}

TEST_F(GeminiUses, AForwardThatEndedInTheMiddleLeavesNothingOnTheDevice) {
  FakeModelHost model({param("w", 1), param("x", 2), param("y", 3)}, {{"w", {0}}, {"both", {1, 2}}});
  const auto strategy = boost(model).value();
  strategy->before_forward(0).value();  // its forward throws: no after_forward
  forward(*strategy, model, 0, 0, 1);
  EXPECT_TRUE(strategy->before_forward(1).ok());
}

TEST_F(GeminiUses, EvaluationBetweenBackwardAndStepChangesNothing) {
  std::vector<float> masters;
  for (const bool evaluate : {false, true}) {
    FakeModelHost model({param("w", 1), param("x", 2), param("y", 3)}, {{"w", {0}}, {"x", {1}}, {"y", {2}}});
    const auto strategy = boost(model).value();
    for (int i = 0; i < 3; ++i) {
      strategy->before_backward(1).value();
      strategy->gradient(1, model.make_gradient(1, kGrad)).value();
      strategy->end_of_backward().value();
      if (evaluate) forward(*strategy, model, 0, 0, 1);
      if (evaluate) forward(*strategy, model, 2, 2, 3);
      step(*strategy);
    }
    masters.push_back(master(*strategy, 1));
  }
  EXPECT_EQ(masters[0], masters[1]);
}

TEST_F(GeminiUses, TheHostsOwnSentenceAndKindReachTheCaller) {
  FakeModelHost model({param("w", 1)}, {{"a", {0}}});
  model.fail_on("init w", ErrorKind::io);
  const auto refused = boost(model);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "init w was told to fail");
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
}

TEST_F(GeminiUses, AFailedBindIsToldInTheHostsWordsAndLeavesNothingPinned) {
  FakeModelHost model({param("w", 1), param("x", 2), param("y", 3)}, {{"w", {0}}, {"both", {1, 2}}});
  const auto strategy = boost(model).value();
  model.fail_on("bind w", ErrorKind::plugin);
  const auto refused = strategy->before_forward(0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "bind w was told to fail");
  model.fail_on("nothing", ErrorKind::plugin);
  EXPECT_TRUE(strategy->before_forward(1).ok());
}

TEST_F(GeminiUses, AGradientWithoutADeleterIsTaken) {
  FakeModelHost model({param("w", 1)}, {{"a", {0}}});
  const auto strategy = boost(model).value();
  DLManagedTensor* grad = model.make_gradient(0, kGrad);
  const auto deleter = std::exchange(grad->deleter, nullptr);
  EXPECT_TRUE(strategy->gradient(0, grad).ok());
  strategy->end_of_backward().value();
  step(*strategy);
  deleter(grad);
  EXPECT_LT(master(*strategy, 0), 1.0f);
}

TEST_F(GeminiUses, AGradientOfNoParameterIsRefusedAndGivenBack) {
  FakeModelHost model({param("w", 1)}, {{"a", {0}}});
  const auto strategy = boost(model).value();
  EXPECT_FALSE(strategy->gradient(7, model.make_gradient(0, kGrad)).ok());
  EXPECT_EQ(model.n_live_gradients(), 0);
}

TEST_F(GeminiUses, TheEndOfTheStrategyUnbindsEveryParameter) {
  FakeModelHost model({param("w", 1), param("x", 2)}, {{"a", {0}}, {"b", {1}}});
  {
    const auto strategy = boost(model).value();
    for (const std::uint32_t unit : {0, 1}) strategy->before_forward(unit).value();
    EXPECT_NE(model.bound(0), nullptr);
  }
  EXPECT_EQ(model.bound(0), nullptr);
  EXPECT_EQ(model.bound(1), nullptr);
}

TEST_F(GeminiUses, ASecondModelInTheProcessHasAStoreOfItsOwn) {
  FakeModelHost one({param("w", 1)}, {{"a", {0}}}), two({param("w", 2)}, {{"a", {0}}});
  const auto first = boost(one).value(), second = boost(two).value();
  forward(*first, one, 0, 0, 1);
  forward(*second, two, 0, 0, 2);
  forward(*first, one, 0, 0, 1);
}

}  // namespace
}  // namespace castor

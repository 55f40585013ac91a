// SPDX-License-Identifier: Apache-2.0
// Gradients that the border refuses before the engine sees them, parameters without elements, and two engines in one
// process.
#include <castor/engine/engine.h>

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "fake_model_host.h"
#include "small_training.h"
#include "through_border.h"

namespace castor {
namespace {

using test::FakeModelHost;
using test::SmallTraining;

constexpr std::int64_t kRows = 4, kColumns = 64;
const std::vector<float> kHalves(kRows* kColumns, 0.5f);

/// A trained and a frozen parameter.
class EngineGradients : public ::testing::Test {
 protected:
  /// The border's sentence about a gradient of parameter `param` that `spoil` has changed. The values of all parameters
  /// stay as they are, the gradient is given back, and the next step is that of a run without it.
  std::string refusal(std::uint32_t param, const std::function<void(DLTensor&)>& spoil, std::uint32_t shaped_as = 0) {
    FakeModelHost host = make_host();
    const auto engine = attached(host);
    DLManagedTensor* const grad = host.make_gradient(shaped_as, kHalves);
    spoil(grad->dl_tensor);
    engine->before_backward(0).value();
    const auto refused = engine->gradient(param, grad);
    EXPECT_EQ(host.n_live_gradients(), 0);
    engine->discard_gradients().value();
    EXPECT_EQ(values(*engine, 0), first_values());
    EXPECT_EQ(values(*engine, 1), first_values());
    EXPECT_EQ(after_step(*engine, host), after_undisturbed_step());
    if (refused.ok()) return "taken";
    EXPECT_EQ(refused.error().kind, ErrorKind::plugin);
    return refused.error().message;
  }

  static FakeModelHost make_host() {
    return {{{"w", {kRows, kColumns}, test::kBf16, first_values()},
             {"frozen", {kRows, kColumns}, test::kBf16, first_values(), false}},
            {{"a", {0}}, {"b", {1}}}};
  }
  static std::vector<float> first_values() { return std::vector<float>(kRows * kColumns, 1); }

  static std::unique_ptr<Strategy> attached(FakeModelHost& host) {
    const auto make = [](ModelHost& model) -> Result<std::unique_ptr<Strategy>> {
      EngineOptions options;
      options.update_threads = 1;
      CASTOR_ASSIGN(auto engine, Engine::make(model, options));
      return std::unique_ptr<Strategy>(std::move(engine));
    };
    return test::through_border(host, make).value();
  }
  static std::vector<float> values(Strategy& engine, std::uint32_t param) {
    std::vector<float> found(kRows * kColumns);
    engine.read_master(param, found.data()).value();
    return found;
  }
  static std::vector<float> after_step(Strategy& engine, FakeModelHost& host) {
    engine.before_backward(0).value();
    engine.gradient(0, host.make_gradient(0, kHalves)).value();
    engine.end_of_backward().value();
    engine.step(SmallTraining().step_args()).value();
    return values(engine, 0);
  }
  static std::vector<float> after_undisturbed_step() {
    FakeModelHost host = make_host();
    return after_step(*attached(host), host);
  }
};

TEST_F(EngineGradients, OneForAFrozenParameterIsRefused) {
  EXPECT_EQ(refusal(
                1, [](DLTensor&) {}, 1),
            "the gradient of frozen is refused: the parameter is frozen and takes none");
}

TEST_F(EngineGradients, OneOfAnotherDtypeIsRefused) {
  EXPECT_EQ(refusal(0, [](DLTensor& grad) { grad.dtype = test::kFp32; }),
            "the gradient of w is refused: it is fp32, the parameter bf16");
}

TEST_F(EngineGradients, OneOfAnotherShapeIsRefused) {
  EXPECT_EQ(refusal(0, [](DLTensor& grad) { std::swap(grad.shape[0], grad.shape[1]); }),
            "the gradient of w is refused: its shape is [64, 4], the parameter's [4, 64]");
}

TEST_F(EngineGradients, OneOfFewerDimensionsIsRefused) {
  EXPECT_EQ(refusal(0, [](DLTensor& grad) { grad.ndim = 1; }),
            "the gradient of w is refused: its shape is [4], the parameter's [4, 64]");
}

TEST_F(EngineGradients, OneThatIsNotContiguousIsRefused) {
  std::int64_t strides[] = {1, kRows};
  EXPECT_EQ(refusal(0, [&strides](DLTensor& grad) { grad.strides = strides; }),
            "the gradient of w is refused: its strides are [1, 4], the parameter's [64, 1]");
}

TEST_F(EngineGradients, OneOnAnotherDeviceIsRefused) {
  EXPECT_EQ(refusal(0,
                    [](DLTensor& grad) {
                      grad.device = {kDLCUDA, 3};
                    }),
            "the gradient of w is refused: it is on device 2:3, the model on 1:0");
}

TEST_F(EngineGradients, OneOfNoParameterIsRefused) {
  EXPECT_EQ(refusal(2, [](DLTensor&) {}), "a gradient arrived for parameter 2, the model has 2");
}

TEST_F(EngineGradients, OneWithoutDataIsRefused) {
  EXPECT_EQ(refusal(0, [](DLTensor& grad) { grad.data = nullptr; }), "the gradient of w is refused: it has no data");
}

TEST_F(EngineGradients, OneWithTheStridesOfItsShapeIsTaken) {
  FakeModelHost host = make_host();
  const auto engine = attached(host);
  std::int64_t strides[] = {kColumns, 1};
  DLManagedTensor* const grad = host.make_gradient(0, kHalves);
  grad->dl_tensor.strides = strides;
  engine->before_backward(0).value();
  engine->gradient(0, grad).value();
  engine->end_of_backward().value();
  engine->step(SmallTraining().step_args()).value();
  EXPECT_EQ(values(*engine, 0), after_undisturbed_step());
}

/// Three steps of a model in which every parameter gets gradients; its first parameter is the one to compare.
std::vector<float> trained_beside(std::vector<test::FakeParam> params, std::vector<test::FakeUnit> units) {
  std::vector<std::vector<float>> gradients;
  for (const auto& param : params) gradients.emplace_back(param.init.size(), 0.5f);
  FakeModelHost host(std::move(params), units);
  EngineOptions options;
  options.update_threads = 1;
  auto engine = Engine::make(host, options).value();
  engine->attach().value();
  for (int step = 0; step < 3; ++step) {
    for (std::uint32_t unit = 0; unit < units.size(); ++unit) {
      engine->before_forward(unit).value();
      for (const std::uint32_t param : units[unit].params) EXPECT_NE(host.bound(param), nullptr);
      engine->after_forward(unit).value();
    }
    for (std::uint32_t unit = static_cast<std::uint32_t>(units.size()); unit-- > 0;) {
      engine->before_backward(unit).value();
      for (const std::uint32_t param : units[unit].params)
        engine->gradient(param, host.make_gradient(param, gradients[param])).value();
      engine->after_backward(unit).value();
    }
    engine->end_of_backward().value();
    engine->step(SmallTraining().step_args()).value();
  }
  for (std::uint32_t param = 1; param < gradients.size(); ++param)
    EXPECT_TRUE(engine->read_master(param, gradients[param].data()).ok());
  std::vector<float> found(gradients[0].size());
  engine->read_master(0, found.data()).value();
  engine.reset();  // the last gradients may be read until then
  EXPECT_EQ(host.n_live_gradients(), 0);
  return found;
}

TEST(EngineEmptyParameters, TheModelTrainsAsWithoutThem) {
  const test::FakeParam w{"w", {256}, test::kBf16, std::vector<float>(256, 1)};
  const test::FakeParam empty{"empty", {0, 8}, test::kBf16, {}}, none{"none", {3, 0}, test::kFp32, {}};
  const auto alone = trained_beside({w}, {{"a", {0}}});
  EXPECT_NE(alone, w.init);
  EXPECT_EQ(trained_beside({w, empty, none}, {{"a", {1, 0}}, {"b", {2}}}), alone);
}

TEST(EnginePairs, InterleavedCallsOfTwoEnginesDoNotMeet) {
  const SmallTraining one, other({.n_units = 4, .numel = 1024});
  const auto host = one.make_host(), other_host = other.make_host();
  const auto engine = Engine::make(*host, one.options()).value();
  const auto other_engine = Engine::make(*other_host, other.options()).value();
  engine->attach().value();
  other_engine->attach().value();
  for (std::uint32_t step = 0; step < 3; ++step) {
    const auto calls = one.calls(*engine, *host, step), other_calls = other.calls(*other_engine, *other_host, step);
    ASSERT_EQ(calls.size(), other_calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      calls[i].make().value();
      other_calls[i].make().value();
    }
  }
  EXPECT_EQ(one.masters(*engine).value(), one.expected(3));
  EXPECT_EQ(other.masters(*other_engine).value(), other.expected(3));
}

TEST(EnginePairs, TwoEnginesTrainOnTwoThreads) {
  const SmallTraining training({.n_units = 4, .numel = 1024});
  const auto expected = training.expected(20);
  std::vector<std::vector<float>> found[2];
  {
    std::vector<std::jthread> threads;
    for (auto& masters : found)
      threads.emplace_back([&masters, &training] {
        const auto host = training.make_host();
        const auto engine = Engine::make(*host, training.options()).value();
        engine->attach().value();
        training.run(*engine, *host, 0, 20).value();
        masters = training.masters(*engine).value();
      });
  }
  EXPECT_EQ(found[0], expected);
  EXPECT_EQ(found[1], expected);
}

/// A device budget for the weights alone and a host budget, without NVMe, states on the host, and steps whose gradients
/// are sums of micro-batches.
class AddedUpGradients : public ::testing::Test {
 protected:
  Result<std::unique_ptr<Engine>> attached(std::uint64_t host_bytes, bool told) {
    EngineOptions options = training_.options();
    options.placement_policy = PlacementPolicy::cpu;
    options.device_budget_bytes = 4 * weights_bytes_;
    options.host_budget_bytes = host_bytes;
    options.accumulate_gradients = told;
    CASTOR_ASSIGN(auto engine, Engine::make(*host_, options));
    CASTOR_TRY(engine->attach());
    return engine;
  }
  Result<void> train(Engine& engine, std::uint32_t n_micro_batches) {
    for (std::uint32_t m = 0; m < n_micro_batches; ++m) CASTOR_TRY(training_.run_micro_batch(engine, *host_, m));
    const auto stepped = engine.step(training_.step_args());
    return stepped.ok() ? Result<void>() : stepped.error();
  }

  const SmallTraining training_;
  const std::unique_ptr<FakeModelHost> host_ = training_.make_host();
  const std::uint64_t weights_bytes_ = training_.unit_bytes(), states_bytes_ = training_.unit_state_bytes();
  /// For gradients in bf16, of which there is one a step, and for sums in fp32. Both beside the weights of one update.
  const std::uint64_t for_one_each_ = 4 * (states_bytes_ + weights_bytes_) + weights_bytes_;
  const std::uint64_t for_sums_ = 4 * (states_bytes_ + 2 * weights_bytes_) + weights_bytes_ + 2 * weights_bytes_;
};

TEST_F(AddedUpGradients, OneEachFitsIntoTheLeastBudget) {
  const auto engine = attached(for_one_each_, false).value();
  for (int step = 0; step < 3; ++step) train(*engine, 1).value();
  EXPECT_FALSE(attached(for_one_each_ - 1, false).ok());
}

TEST_F(AddedUpGradients, SumsDoNotFitIntoThatBudget) {
  const auto engine = attached(for_one_each_, false).value();
  const auto trained = train(*engine, 2);
  ASSERT_FALSE(trained.ok()) << "which is why the engine must be told";
  EXPECT_EQ(trained.error().kind, ErrorKind::does_not_fit);
}

TEST_F(AddedUpGradients, SumsFitIntoTheLeastBudgetOfAnEngineThatWasTold) {
  const auto engine = attached(for_sums_, true).value();
  for (int step = 0; step < 3; ++step) train(*engine, 3).value();
  EXPECT_LE(engine->stats().value().peak_bytes[1], for_sums_);
  const auto refused = attached(for_sums_ - 1, true);
  ASSERT_FALSE(refused.ok()) << "at the start, not in the first step";
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
// Gradients and weights that the caller changes train with the same bits in the resident run and in gemini.
#include <castor/plugins/booster.h>
#include <castor/plugins/torch/errors.h>
#include <castor/plugins/torch/runtime.h>
#include <castor/training/plugin_folders.h>
#include "small_model.h"

#include <gtest/gtest.h>

#include <castor/plugins/torch/torch_adapter.h>

#include <functional>

namespace castor::testing {
namespace {

constexpr castor_step_args kArgs = {sizeof(castor_step_args), CASTOR_ADAMW, 0.01, 0.9, 0.999, 1e-8, 0.1, 0, 1};
constexpr std::uint32_t kNParams = 6;

/// SmallModel in bf16, trained by the resident run or by gemini with its states on the host.
struct Training {
  explicit Training(bool resident) : model(std::make_shared<SmallModel>(at::TensorOptions(at::kBFloat16))) {
    adapter = TorchAdapter::make(model, c10::kCPU, {.seed = 5}).value();
    if (resident) {
      strategy = make_resident_strategy(*adapter).value();
      return;
    }
    const Plugin gemini = PluginLoader(torch_build_tag(), plugin_folders()).load("gemini").value();
    const PluginOptions options = {{"placement_policy", "cpu"}, {"device_budget", "16KiB"}};
    strategy = Booster::make(gemini, options).value().boost(adapter->host()).value();
    adapter->connect(strategy.get());
  }
  ~Training() { adapter->connect(nullptr); }

  void backward(double factor = 1) {
    const at::Tensor x = small_input(at::TensorOptions(at::kBFloat16));
    adapter->backward((model->forward(x).to(at::kFloat) - 0.3).square().mean() * factor).value();
  }
  /// All values of each parameter's gradient, changed by `change`.
  void change_gradients(const std::function<float(float)>& change) {
    for (std::uint32_t param = 0; param < kNParams; ++param) {
      std::vector<float> values(numel(param));
      const castor_values all = {sizeof all, param, 0, CASTOR_ALL, CASTOR_FP32, values.data()};
      strategy->values().read_gradient(all).value();
      for (float& value : values) value = change(value);
      strategy->values().write_gradient(all).value();
    }
  }
  std::size_t numel(std::uint32_t param) const { return static_cast<std::size_t>(model->parameters()[param].numel()); }
  std::vector<std::vector<float>> masters() {
    std::vector<std::vector<float>> found;
    for (std::uint32_t param = 0; param < kNParams; ++param) {
      found.emplace_back(numel(param));
      strategy->read_master(param, found.back().data()).value();
    }
    return found;
  }

  std::shared_ptr<SmallModel> model;
  std::unique_ptr<TorchAdapter> adapter;
  std::unique_ptr<Strategy> strategy;
};

TEST(ValuesAgree, GradientsScaledByTheCallerTrainAsAScaledLoss) {
  Training resident(true), gemini(false), scaled(true);
  castor_step_args args = kArgs;
  for (int step = 0; step < 4; ++step) {
    args.max_norm = step % 2 == 0 ? 0 : 0.05;
    for (Training* run : {&resident, &gemini}) {
      run->backward();
      run->change_gradients([](float value) { return value / 4; });
      run->strategy->step(args).value();
    }
    scaled.backward(0.25);
    scaled.strategy->step(args).value();
  }
  EXPECT_EQ(resident.masters(), scaled.masters());
  EXPECT_EQ(gemini.masters(), scaled.masters());
}

/// A factor that bf16 does not hold: written values keep their 32 bits.
TEST(ValuesAgree, WrittenGradientsKeepAllTheirBits) {
  Training resident(true), gemini(false);
  for (int step = 0; step < 3; ++step)
    for (Training* run : {&resident, &gemini}) {
      run->backward();
      run->change_gradients([](float value) { return value * 0.3f + 1e-6f; });
      run->backward();
      run->strategy->step(kArgs).value();
    }
  EXPECT_EQ(gemini.masters(), resident.masters());
}

TEST(ValuesAgree, WeightsThatTheCallerChangesAreTheNewMasters) {
  Training resident(true), gemini(false);
  const std::uint32_t params[] = {1, 2};
  const castor_access access = {sizeof access, CASTOR_WRITE, 2, params};
  for (Training* run : {&resident, &gemini}) {
    run->backward();
    run->strategy->step(kArgs).value();
    std::vector<std::vector<float>> expected = run->masters();
    run->strategy->values().acquire(access).value();
    {
      const at::NoGradGuard no_grad;
      for (const std::uint32_t param : params) run->model->parameters()[param].mul_(1.5);
    }
    for (const std::uint32_t param : params) {
      const at::Tensor weights = run->model->parameters()[param].detach().to(at::kFloat).contiguous();
      expected[param].assign(weights.const_data_ptr<float>(), weights.const_data_ptr<float>() + weights.numel());
    }
    run->strategy->values().release(access).value();
    EXPECT_EQ(run->masters(), expected);
    for (int step = 0; step < 2; ++step) {
      run->backward();
      run->strategy->step(kArgs).value();
    }
  }
  EXPECT_EQ(gemini.masters(), resident.masters());
}

TEST(ValuesAgree, TheSameRequestsAreRefused) {
  for (const bool is_resident : {true, false}) {
    Training run(is_resident);
    std::vector<float> values(64);
    run.backward();
    run.strategy->step(kArgs).value();
    const auto none =
        run.strategy->values().write_gradient({sizeof(castor_values), 0, 1, 2, CASTOR_FP32, values.data()});
    ASSERT_FALSE(none.ok());
    if (is_resident) {
      EXPECT_EQ(
          none.error().message,
          "parameter layer0.weight has no gradient since the last step; it gets one by writing all its 64 values");
    }
    const auto wrong = run.strategy->values().release({sizeof(castor_access), CASTOR_READ, 0, nullptr});
    EXPECT_FALSE(wrong.ok());
  }
}

}  // namespace
}  // namespace castor::testing

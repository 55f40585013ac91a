// SPDX-License-Identifier: Apache-2.0
// Hooks of the user's own on parameters, and parameters that are frozen or thawed while a strategy is connected.
#include "wired_units.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace castor::testing {
namespace {

struct UsersHook final : torch::autograd::PostAccumulateGradHook {
  explicit UsersHook(std::function<void(const at::Tensor&)> call) : fn(std::move(call)) {}
  void operator()(const at::Tensor& parameter) override { fn(parameter); }
  std::function<void(const at::Tensor&)> fn;
};

void set_hook(const at::Tensor& parameter, std::function<void(const at::Tensor&)> fn) {
  torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<UsersHook>(std::move(fn)));
}

at::Tensor wired_loss(WiredUnits& units, const at::Tensor& x) {
  return (*units.c)((*units.b)((*units.a)({x}, curved), curved), product)[0].square().sum();
}

/// As Poisoned, with hooks on the parameters from before the connection.
struct Hooked3 {
  explicit Hooked3(std::function<void(const at::Tensor&)> hook) {
    set_hook(units->b->weight, std::move(hook));
    adapter->connect(strategy.get());
  }
  Result<void> backward() {
    return adapter->backward(guard([&] { return wired_loss(*units, wired_input()); }).value());
  }
  std::shared_ptr<WiredUnits> units = std::make_shared<WiredUnits>();
  std::unique_ptr<TorchAdapter> adapter = TorchAdapter::make(units, c10::kCPU, {.seed = 5}).value();
  std::unique_ptr<PoisoningStrategy> strategy = std::make_unique<PoisoningStrategy>(*adapter);
};

TEST(UsersHooks, SeeAndChangeTheGradientBeforeItIsHandedOver) {
  const Outcome plain = plain_outcome(wired_loss);
  std::vector<at::Tensor> seen;
  Hooked3 run([&](const at::Tensor& parameter) {
    seen.push_back(parameter.grad().clone());
    parameter.mutable_grad().mul_(2);
  });
  ASSERT_TRUE(run.backward().ok());
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_TRUE(at::equal(seen[0], plain.grads[1]));
  EXPECT_TRUE(at::equal(run.strategy->grads[1].at(0), plain.grads[1] * 2));
  EXPECT_TRUE(at::equal(run.strategy->grads[0].at(0), plain.grads[0]));
}

TEST(UsersHooks, MayTakeTheGradientAway) {
  Hooked3 run([](const at::Tensor& parameter) { parameter.mutable_grad().reset(); });
  ASSERT_TRUE(run.backward().ok());
  EXPECT_TRUE(run.strategy->grads[1].empty());
  EXPECT_EQ(run.strategy->grads[0].size(), 1u);
}

TEST(UsersHooks, AreThereAgainAfterTheConnection) {
  int n_calls = 0;
  Hooked3 run([&](const at::Tensor&) { ++n_calls; });
  ASSERT_TRUE(run.backward().ok());
  run.adapter->connect(nullptr);
  run.adapter->connect(run.strategy.get());
  run.adapter->connect(nullptr);
  const PlainMemory memory(*run.adapter);
  wired_loss(*run.units, wired_input()).backward();
  EXPECT_EQ(n_calls, 2);
  EXPECT_TRUE(run.units->b->weight.grad().defined());
}

TEST(UsersHooks, ThatReplaceOursAreAnErrorAndStay) {
  Hooked3 run([](const at::Tensor&) {});
  int n_calls = 0;
  set_hook(run.units->c->weight, [&](const at::Tensor&) { ++n_calls; });
  const auto done = run.backward();
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().kind, ErrorKind::usage);
  EXPECT_EQ(done.error().message,
            "the hook that hands over the gradient of parameter c.weight was replaced; set hooks of your own before "
            "the strategy is connected");
  run.adapter->connect(nullptr);
  const PlainMemory memory(*run.adapter);
  wired_loss(*run.units, wired_input()).backward();
  EXPECT_EQ(n_calls, 1);
}

TEST(RequiresGrad, OfAFrozenParameterIsFollowed) {
  Poisoned poisoned;
  const Outcome plain = plain_outcome(wired_loss);
  poisoned.units->b->weight.set_requires_grad(false);
  const Outcome frozen = poisoned.run(wired_loss);
  EXPECT_FALSE(frozen.grads[1].defined());
  EXPECT_TRUE(at::equal(frozen.grads[0], plain.grads[0]));
  poisoned.units->b->weight.set_requires_grad(true);
  expect_same(poisoned.run(wired_loss), plain);
}

TEST(RequiresGrad, OfAParameterThatWasFrozenAtTheConnectionIsAnErrorByName) {
  for (const bool resident : {false, true}) {
    const auto units = std::make_shared<WiredUnits>();
    units->b->weight.set_requires_grad(false);
    const auto adapter = TorchAdapter::make(units, c10::kCPU, {.seed = 5}).value();
    std::unique_ptr<Strategy> strategy;
    if (resident) {
      strategy = make_resident_strategy(*adapter).value();
    } else {
      strategy = std::make_unique<PoisoningStrategy>(*adapter);
      adapter->connect(strategy.get());
    }
    ASSERT_TRUE(adapter->backward(wired_loss(*units, wired_input())).ok());
    units->b->weight.set_requires_grad(true);
    const auto done = adapter->backward(wired_loss(*units, wired_input()));
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().kind, ErrorKind::usage);
    EXPECT_EQ(
        done.error().message,
        "parameter b.weight was frozen when the model was boosted and requires a gradient now, but has no optimizer "
        "states; let it require one when the model is boosted, and freeze it after that");
    units->b->weight.set_requires_grad(false);
    EXPECT_TRUE(adapter->backward(wired_loss(*units, wired_input())).ok());
  }
}

}  // namespace
}  // namespace castor::testing

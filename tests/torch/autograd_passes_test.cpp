// SPDX-License-Identifier: Apache-2.0
// Backward passes that autograd begins by itself (loss.backward()): the session notices their begin and end.
#include <castor/plugins/torch/session.h>

#include <gtest/gtest.h>

#include <castor/plugins/torch/errors.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "small_model.h"

namespace castor::testing {
namespace {

using namespace literals;

struct AutogradRun {
  explicit AutogradRun(SessionOptions options)
      : session(boost(model, Gemini{.device_budget = 8_KiB, .host_budget = 1_MiB, .set = {{"chunk_bytes", "1KiB"}}},
                      AdamW{.lr = 0.01}, std::move(options))
                    .value()) {}

  at::Tensor loss(int batch) {
    return guard([&] { return (model->forward(small_input().roll(batch, 0)) - 0.3).square().mean(); }).value();
  }
  std::string digest() { return session.digest().value(); }

  std::shared_ptr<SmallModel> model = std::make_shared<SmallModel>();
  Session session;
};

SessionOptions by_autograd() { return {.micro_batches = 0, .autograd_begins = true, .values_may_change = true}; }

/// After steps of two losses each, which `backward` differentiates.
std::string digest_of(AutogradRun& run,
                      const std::function<void(AutogradRun&, const at::Tensor&, const at::Tensor&)>& backward) {
  for (int step = 0; step < 3; ++step) {
    backward(run, run.loss(2 * step), run.loss(2 * step + 1));
    run.session.step().value();
  }
  return run.digest();
}

void in_turn(AutogradRun& /*run*/, const at::Tensor& a, const at::Tensor& b) {
  a.backward();
  b.backward();
}

/// The same losses with a session that is told of each pass. It divides by the micro-batches, and autograd does not.
std::string expected() {
  AutogradRun run(SessionOptions{.micro_batches = 2});
  return digest_of(run, [](AutogradRun& r, const at::Tensor& a, const at::Tensor& b) {
    r.session.backward(2 * a).value();
    r.session.backward(2 * b).value();
  });
}

TEST(AutogradsPasses, AreTheMicroBatchesOfAStep) {
  AutogradRun run(by_autograd());
  EXPECT_EQ(digest_of(run, in_turn), expected());
}

TEST(AutogradsPasses, MayBeSeveralThroughOneGraph) {
  AutogradRun once(by_autograd()), twice(by_autograd());
  const std::string doubled =
      digest_of(once, [](AutogradRun&, const at::Tensor& a, const at::Tensor&) { (2 * a).backward(); });
  const std::string one_by_one = digest_of(twice, [](AutogradRun&, const at::Tensor& a, const at::Tensor&) {
    a.backward({}, /*retain_graph=*/true);
    a.backward();
  });
  EXPECT_EQ(doubled, one_by_one);
}

TEST(AutogradsPasses, CanBeDropped) {
  AutogradRun run(by_autograd());
  EXPECT_FALSE(run.session.step_under_way().value());
  run.loss(17).backward();
  EXPECT_TRUE(run.session.step_under_way().value());
  run.session.zero_grad().value();
  EXPECT_FALSE(run.session.step_under_way().value());
  EXPECT_EQ(digest_of(run, in_turn), expected());
}

TEST(AutogradsPasses, ThatAnExceptionEndsBreakTheStepUntilItIsDropped) {
  AutogradRun run(by_autograd());
  const at::Tensor x = small_input().requires_grad_();
  const auto broken = [&] {
    const at::Tensor y = guard([&] { return run.model->forward(x); }).value();
    x.register_hook([](const at::Tensor&) -> at::Tensor { throw std::runtime_error("a hook of the user"); });
    y.square().mean().backward();
  };
  EXPECT_THROW(broken(), std::runtime_error);
  EXPECT_EQ(run.session.step().error().message,
            "a call of this step has failed; drop the step with zero_grad() and begin it anew");
  run.session.zero_grad().value();
  EXPECT_EQ(digest_of(run, in_turn), expected());
}

TEST(AutogradsPasses, OfAnInputAloneGiveNoGradientToTheStep) {
  AutogradRun run(by_autograd()), other(by_autograd());
  const auto step = [](AutogradRun& r, bool asks_for_input) {
    const at::Tensor x = small_input().requires_grad_();
    if (asks_for_input) {
      const at::Tensor y = guard([&] { return r.model->forward(x); }).value();
      const auto grads = torch::autograd::grad({y.square().mean()}, {x});
      EXPECT_TRUE(grads.at(0).defined());
    }
    r.loss(3).backward();
    r.session.step().value();
    return r.digest();
  };
  EXPECT_EQ(step(run, true), step(other, false));
}

struct Translated : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(AutogradsPasses, CarryErrorsInTheFormOfTheProgram) {
  SessionOptions options = by_autograd();
  options.rethrow = [](const ErrorException& error) { throw Translated(error.error().message); };
  AutogradRun run(std::move(options));
  const at::Tensor loss = run.loss(0);
  EXPECT_THROW(loss.backward({}, {}, /*create_graph=*/true), Translated);
}

TEST(AutogradsPasses, WithAKnownNumberAnnounceTheStepInTheLast) {
  SessionOptions options = by_autograd();
  options.micro_batches = 2, options.values_may_change = false;
  AutogradRun run(std::move(options));
  EXPECT_EQ(digest_of(run, in_turn), expected());
  run.loss(0).backward();
  run.loss(1).backward();
  EXPECT_FALSE(guard([&] { return run.model->forward(small_input()); }).ok()) << "weights may be new already";
  EXPECT_TRUE(run.session.step().ok());
}

}  // namespace
}  // namespace castor::testing

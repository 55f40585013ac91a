// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/errors.h>
#include <castor/plugins/torch/recompute.h>
#include <castor/plugins/torch/runtime.h>
#include "poisoning_strategy.h"
#include "small_model.h"

#include <gtest/gtest.h>

namespace castor::testing {
namespace {

struct Hooked {
  std::shared_ptr<SmallModel> model = std::make_shared<SmallModel>();
  bool stop = false;
  std::unique_ptr<TorchAdapter> adapter =
      TorchAdapter::make(model, c10::kCPU, {.seed = 5, .interrupted = [this] { return stop; }}).value();
  std::unique_ptr<PoisoningStrategy> strategy = std::make_unique<PoisoningStrategy>(*adapter);
  Hooked() { adapter->connect(strategy.get()); }

  Result<at::Tensor> forward() {
    return guard([&] { return model->forward(small_input()).sum(); });
  }
};

std::vector<std::string> only(const std::vector<std::string>& log, const std::string& prefix) {
  std::vector<std::string> found;
  std::copy_if(log.begin(), log.end(), std::back_inserter(found),
               [&](const std::string& call) { return call.starts_with(prefix); });
  return found;
}

std::size_t position(const std::vector<std::string>& log, const std::string& call) {
  return static_cast<std::size_t>(std::find(log.begin(), log.end(), call) - log.begin());
}

TEST(TorchAdapter, ListsUnitsAndParametersInOrder) {
  Hooked run;
  ModelHost& host = run.adapter->host();
  ASSERT_EQ(host.n_units(), 3u);
  ASSERT_EQ(host.n_params(), 6u);
  const castor_unit_info unit = host.unit_info(1).value();
  EXPECT_STREQ(unit.name, "layer1");
  EXPECT_EQ(params_of(host, 1), (std::vector<std::uint32_t>{2, 3}));
  const castor_param_info param = host.param_info(2).value();
  EXPECT_STREQ(param.name, "layer1.weight");
  EXPECT_EQ(param.ndim, 2);
  EXPECT_EQ(param.shape[0], 8);
  EXPECT_EQ(param.numel, 64u);
  EXPECT_EQ(param.dtype.code, kDLFloat);
  EXPECT_EQ(param.dtype.bits, 32);
  EXPECT_EQ(param.flags, CASTOR_PARAM_TRAINABLE);
}

TEST(TorchAdapter, AnUnknownParameterIsRefusedWithASentence) {
  Hooked run;
  ModelHost& host = run.adapter->host();
  const auto refused = host.bind(6, nullptr);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::plugin);
  EXPECT_EQ(refused.error().message, "there is no parameter 6; the model has 6");
}

TEST(TorchAdapter, TheHostAsDeviceHasNoAllocatorOfItsOwn) {
  Hooked run;
  ModelHost& host = run.adapter->host();
  EXPECT_EQ(host.device_memory(), nullptr);
  EXPECT_EQ(host.compute_stream(), nullptr);
  EXPECT_EQ(host.device().device_type, kDLCPU);
}

TEST(TorchAdapter, RefusesAParameterOutsideAUnit) {
  struct Loose : torch::nn::Module {
    Loose() { register_parameter("w", at::zeros({2})); }
  };
  const auto made = TorchAdapter::make(std::make_shared<Loose>(), c10::kCPU);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::usage);
  EXPECT_NE(made.error().message.find("parameter w "), std::string::npos) << made.error().message;
}

TEST(TorchAdapter, RefusesADtypeThatChunksDoNotHold) {
  const auto made = TorchAdapter::make(std::make_shared<SmallModel>(at::TensorOptions(at::kDouble)), c10::kCPU);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message,
            "parameter layer0.weight is Double; parameters that are trained are fp32, fp16 or bf16: "
            "cast the model before, as with model.float()");
}

TEST(TorchAdapter, CallsEachUnitInOrder) {
  Hooked run;
  const auto loss = run.forward();
  ASSERT_TRUE(loss.ok()) << loss.error().message;
  EXPECT_EQ(run.strategy->log, (std::vector<std::string>{"before_forward 0", "after_forward 0", "before_forward 1",
                                                         "after_forward 1", "before_forward 2", "after_forward 2"}));
  run.strategy->log.clear();
  ASSERT_TRUE(run.adapter->backward(*loss).ok());
  const auto& log = run.strategy->log;
  EXPECT_EQ(only(log, "before_backward"),
            (std::vector<std::string>{"before_backward 2", "before_backward 1", "before_backward 0"}));
  // The first unit's input needs no gradient.
  EXPECT_EQ(only(log, "after_backward"), (std::vector<std::string>{"after_backward 2", "after_backward 1"}));
  EXPECT_EQ(log.back(), "end_of_backward");
  EXPECT_EQ(only(log, "gradient").size(), 6u);
  for (int unit = 0; unit < 3; ++unit) {
    const std::size_t open = position(log, "before_backward " + std::to_string(unit));
    const std::size_t close = unit == 0 ? log.size() : position(log, "after_backward " + std::to_string(unit));
    for (int param : {2 * unit, 2 * unit + 1}) {
      EXPECT_GT(position(log, "gradient " + std::to_string(param)), open);
      EXPECT_LT(position(log, "gradient " + std::to_string(param)), close);
    }
  }
}

TEST(TorchAdapter, EvaluationHasForwardCallsOnly) {
  Hooked run;
  const at::NoGradGuard no_grad;
  ASSERT_TRUE(run.forward().ok());
  EXPECT_EQ(run.strategy->log.size(), 6u);
  EXPECT_EQ(only(run.strategy->log, "before_forward").size(), 3u);
}

TEST(TorchAdapter, RecomputeRunsTheHooksAgain) {
  Hooked run;
  const auto body = [&](const at::Tensor& x) { return run.model->forward(x); };
  const at::Tensor loss = recompute(body, small_input()).sum();
  EXPECT_EQ(run.strategy->log.size(), 6u);
  ASSERT_TRUE(run.adapter->backward(loss).ok());
  EXPECT_EQ(only(run.strategy->log, "before_forward").size(), 6u);
  EXPECT_EQ(only(run.strategy->log, "before_backward").size(), 3u);
  EXPECT_EQ(run.strategy->grads.size(), 6u);
}

/// The layers as parts of their own, each recomputed.
at::Tensor recomputed_by_layer(const SmallModel& model, at::Tensor x) {
  for (const auto& layer : model.layers)
    x = recompute([layer](const at::Tensor& in) { return layer->forward(in); }, x, layer.get());
  return x;
}

TEST(TorchAdapter, AStrategyMayKeepWhatRecomputedPartsBeginWith) {
  Hooked run, plain;
  run.strategy->keeps = true;
  ASSERT_TRUE(run.adapter->backward(recomputed_by_layer(*run.model, small_input()).sum()).ok());
  ASSERT_TRUE(plain.adapter->backward(recomputed_by_layer(*plain.model, small_input()).sum()).ok());
  for (std::uint32_t i = 0; i < 6; ++i)
    EXPECT_TRUE(at::equal(run.strategy->grads[i].at(0), plain.strategy->grads[i].at(0))) << "parameter " << i;
  const auto& log = run.strategy->log;
  EXPECT_EQ(only(log, "keep"), (std::vector<std::string>{"keep 1", "keep 2", "keep 3"}));
  for (const int part : {0, 1, 2}) {
    const std::string unit = std::to_string(part), kept = std::to_string(part + 1);
    EXPECT_LT(position(log, "keep " + kept), position(log, "before_forward " + unit));
    EXPECT_LT(position(log, "recall " + kept), position(log, "before_backward " + unit));
    EXPECT_LT(position(log, "gradient " + std::to_string(2 * part)), position(log, "forget " + kept));
  }
  EXPECT_EQ(only(log, "recall"), (std::vector<std::string>{"recall 3", "recall 2", "recall 1"}));
  EXPECT_EQ(only(log, "forget"), (std::vector<std::string>{"forget 3", "forget 2", "forget 1"}));
}

TEST(TorchAdapter, NobodyElseHoldsWhatAStrategyKeeps) {
  Hooked run;
  run.strategy->keeps = true;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> inputs;
  at::Tensor x = small_input();
  for (const auto& layer : run.model->layers) {
    inputs.emplace_back(x.getIntrusivePtr());
    x = recompute([layer](const at::Tensor& in) { return layer->forward(in); }, x, layer.get());
  }
  for (const auto& input : inputs) EXPECT_TRUE(input.expired());
  ASSERT_TRUE(run.adapter->backward(x.sum()).ok());
}

TEST(TorchAdapter, WhatWasKeptForAGraphThatNeverGoesBackwardIsForgottenWithIt) {
  Hooked run;
  run.strategy->keeps = true;
  (void)recomputed_by_layer(*run.model, small_input());
  EXPECT_EQ(only(run.strategy->log, "forget").size(), 3u);
  EXPECT_TRUE(only(run.strategy->log, "recall").empty());
  const at::NoGradGuard no_grad;
  (void)recomputed_by_layer(*run.model, small_input());
  EXPECT_EQ(only(run.strategy->log, "keep").size(), 3u) << "evaluation keeps nothing";
}

TEST(TorchAdapter, AGraphMayOutliveTheStrategyThatKeptForIt) {
  Hooked run;
  run.strategy->keeps = true;
  const at::Tensor loss = recomputed_by_layer(*run.model, small_input()).sum();
  run.adapter->connect(nullptr);
  run.strategy.reset();
  const auto done = run.adapter->backward(loss);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().message,
            "backward through a graph whose strategy was destroyed; keep the boosted model and optimizer until "
            "backward ends");
}

/// The gradients of SmallModel's parameters by plain torch, whose graph goes backward once.
std::vector<at::Tensor> plain_grads() {
  const auto model = std::make_shared<SmallModel>();
  const auto adapter = TorchAdapter::make(model, c10::kCPU, {.seed = 5}).value();
  const PlainMemory memory(*adapter);
  model->forward(small_input()).sum().backward();
  std::vector<at::Tensor> grads;
  for (const at::Tensor& parameter : model->parameters()) grads.push_back(parameter.grad().clone());
  return grads;
}

/// Differentiates `loss` and keeps its graph.
Result<void> backward_once_more_later(Hooked& run, const at::Tensor& loss) {
  CASTOR_TRY(guard([&] { loss.backward({}, /*retain_graph=*/true); }));
  return run.strategy->end_of_backward();
}

/// Each of the six parameters got its gradient in `plain` twice.
void expect_each_twice(const Hooked& run, const std::vector<at::Tensor>& plain) {
  for (std::uint32_t i = 0; i < 6; ++i) {
    ASSERT_EQ(run.strategy->grads[i].size(), 2u) << "parameter " << i;
    for (const at::Tensor& grad : run.strategy->grads[i]) EXPECT_TRUE(at::equal(grad, plain[i])) << "parameter " << i;
  }
}

TEST(TorchAdapter, AGraphThatIsRetainedGivesItsGradientsTwice) {
  const auto plain = plain_grads();
  Hooked run;
  const at::Tensor loss = run.forward().value();
  ASSERT_TRUE(backward_once_more_later(run, loss).ok());
  ASSERT_TRUE(run.adapter->backward(loss).ok());
  expect_each_twice(run, plain);
}

TEST(TorchAdapter, RecomputedPartsOfARetainedGraphAreRecomputedTwice) {
  const auto plain = plain_grads();
  Hooked run;
  const at::Tensor loss = recomputed_by_layer(*run.model, small_input()).sum();
  ASSERT_TRUE(backward_once_more_later(run, loss).ok());
  ASSERT_TRUE(run.adapter->backward(loss).ok());
  EXPECT_EQ(only(run.strategy->log, "before_forward").size(), 9u) << "forward, and once in each backward";
  expect_each_twice(run, plain);
}

TEST(TorchAdapter, KeptPartsOfARetainedGraphGoBackwardOnce) {
  const auto plain = plain_grads();
  Hooked run;
  run.strategy->keeps = true;
  const at::Tensor loss = recomputed_by_layer(*run.model, small_input()).sum();
  ASSERT_TRUE(backward_once_more_later(run, loss).ok());
  EXPECT_EQ(only(run.strategy->log, "forget").size(), 3u);
  const auto again = run.adapter->backward(loss);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().kind, ErrorKind::usage);
  EXPECT_EQ(again.error().message,
            "backward ran through a recomputed part a second time; run its forward pass again first");
  EXPECT_EQ(only(run.strategy->log, "recall").size(), 3u) << "nothing is asked for that is gone";
  for (std::uint32_t i = 0; i < 6; ++i) {
    ASSERT_EQ(run.strategy->grads[i].size(), 1u) << "parameter " << i;
    EXPECT_TRUE(at::equal(run.strategy->grads[i][0], plain[i])) << "parameter " << i;
  }
}

TEST(TorchAdapter, WhatDoesNotLieInOnePieceIsNotKept) {
  Hooked run;
  run.strategy->keeps = true;
  (void)recomputed_by_layer(*run.model, at::cat({small_input(), small_input()}).slice(0, 0, 8, 2));
  EXPECT_EQ(only(run.strategy->log, "keep").size(), 2u) << "the first input has holes";
}

TEST(TorchAdapter, GivingBackAndTakingUpFailWithTheStrategysError) {
  for (const char* call : {"keep 2", "recall 2", "forget 2"}) {
    Hooked run;
    run.strategy->keeps = true;
    run.strategy->fail_at(call);
    const auto done = guard([&] { return recomputed_by_layer(*run.model, small_input()).sum(); });
    const auto outcome = done.ok() ? run.adapter->backward(*done) : Result<void>(done.error());
    ASSERT_FALSE(outcome.ok()) << call;
    EXPECT_EQ(outcome.error().message, std::string("the drive caught fire at ") + call);
  }
}

TEST(TorchAdapter, GradientsEqualThePlainRunAndLeaveNothingBehind) {
  Hooked run;
  ASSERT_TRUE(run.adapter->backward(*run.forward()).ok());
  Hooked plain;
  plain.adapter->connect(nullptr);
  const PlainMemory memory(*plain.adapter);
  plain.forward()->backward();
  const auto parameters = plain.model->parameters();
  for (std::uint32_t i = 0; i < 6; ++i) {
    ASSERT_EQ(run.strategy->grads[i].size(), 1u);
    EXPECT_TRUE(at::equal(run.strategy->grads[i][0], parameters[i].grad())) << "parameter " << i;
    EXPECT_FALSE(run.model->parameters()[i].grad().defined());
  }
}

TEST(TorchAdapter, LossScaleMultipliesGradients) {
  Hooked one, scaled;
  ASSERT_TRUE(one.adapter->backward(*one.forward()).ok());
  ASSERT_TRUE(scaled.adapter->backward(*scaled.forward(), 1024).ok());
  for (std::uint32_t i = 0; i < 6; ++i)
    EXPECT_TRUE(at::equal(one.strategy->grads[i][0] * 1024, scaled.strategy->grads[i][0]));
}

TEST(TorchAdapter, AFailingHookComesBackAsItsError) {
  for (const char* call : {"before_forward 1", "after_forward 2"}) {
    Hooked run;
    run.strategy->fail_at(call);
    const auto loss = run.forward();
    ASSERT_FALSE(loss.ok());
    EXPECT_EQ(loss.error().kind, ErrorKind::io);
    EXPECT_EQ(loss.error().message, std::string("the drive caught fire at ") + call);
  }
  for (const char* call : {"before_backward 1", "after_backward 2", "gradient 3"}) {
    Hooked run;
    run.strategy->fail_at(call);
    const auto done = run.adapter->backward(*run.forward());
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().kind, ErrorKind::io);
    EXPECT_EQ(done.error().message, std::string("the drive caught fire at ") + call);
  }
}

TEST(TorchAdapter, AHookThatFailsWhileRecomputingComesBackAsItsError) {
  Hooked run;
  run.strategy->fail_at("before_backward 1");
  const auto body = [&](const at::Tensor& x) { return run.model->forward(x); };
  const auto done = run.adapter->backward(recompute(body, small_input()).sum());
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().kind, ErrorKind::io);
}

TEST(TorchAdapter, AnInterruptionEndsThePassItComesIn) {
  Hooked run;
  const auto loss = run.forward();
  run.stop = true;
  const auto done = run.adapter->backward(*loss);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().kind, ErrorKind::interrupted);
  const auto again = run.forward();
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().kind, ErrorKind::interrupted);
}

TEST(TorchAdapter, ASecondStrategyIsRefusedWhileOneIsConnected) {
  const auto plain = plain_grads();
  Hooked run;
  PoisoningStrategy second(*run.adapter);
  try {
    run.adapter->connect(&second);
    FAIL() << "two strategies would bind the same parameters";
  } catch (const ContractViolation& refused) {
    EXPECT_STREQ(refused.what(),
                 "TorchAdapter: a strategy is connected already; connect(nullptr) and destroy it before the next");
  }
  EXPECT_THROW((void)make_resident_strategy(*run.adapter), ContractViolation);
  run.adapter->connect(run.strategy.get());  // as before
  ASSERT_TRUE(run.adapter->backward(run.forward().value()).ok());
  EXPECT_TRUE(second.log.empty());
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_TRUE(at::equal(run.strategy->grads[i].at(0), plain[i])) << i;
}

TEST(TorchAdapter, AUnitIsConnectedThroughOneAdapterAtATime) {
  Hooked run;
  const auto other = TorchAdapter::make(run.model, c10::kCPU, {.seed = 5}).value();
  PoisoningStrategy second(*other);
  try {
    other->connect(&second);
    FAIL() << "the units would call one strategy, and bind the parameters of two";
  } catch (const ErrorException& refused) {
    EXPECT_EQ(refused.error().kind, ErrorKind::usage);
    EXPECT_STREQ(refused.what(),
                 "unit layer0 is trained by another strategy; end that session, or disconnect its adapter, before the "
                 "model is given to a new one");
  }
  run.adapter->connect(nullptr);
  other->connect(&second);
  ASSERT_TRUE(other->backward(run.forward().value()).ok());
  EXPECT_EQ(second.grads.size(), 6u);
}

TEST(TorchAdapter, MessagesGoToTheCallersLogAndNowhereElse) {
  std::vector<std::string> messages;
  const auto log = [&](castor_log_level level, std::string_view message) {
    messages.push_back(std::to_string(static_cast<int>(level)) + ' ' + std::string(message));
  };
  const auto model = std::make_shared<SmallModel>();
  ::testing::internal::CaptureStderr();
  {
    const auto adapter = TorchAdapter::make(model, c10::kCPU, {.log = log}).value();
    adapter->host().log(CASTOR_LOG_WARN, "a drive is slow");
    adapter->host().log(CASTOR_LOG_DEBUG, "an order");
    const auto silent = TorchAdapter::make(model, c10::kCPU).value();
    silent->host().log(CASTOR_LOG_WARN, "there is no log");
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(messages, (std::vector<std::string>{"2 a drive is slow", "0 an order"}));
}

TEST(TorchAdapter, OneStrategyAfterAnotherTrainsTheModel) {
  const auto plain = plain_grads();
  Hooked run;
  ASSERT_TRUE(run.adapter->backward(run.forward().value()).ok());
  run.adapter->connect(nullptr);
  run.strategy = nullptr;
  run.strategy = std::make_unique<PoisoningStrategy>(*run.adapter);
  run.adapter->connect(run.strategy.get());
  ASSERT_TRUE(run.adapter->backward(run.forward().value()).ok());
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_TRUE(at::equal(run.strategy->grads[i].at(0), plain[i])) << i;
}

TEST(TorchAdapter, DisconnectedUnitsCallNobody) {
  Hooked run;
  const PlainMemory memory(*run.adapter);
  run.adapter->connect(nullptr);
  run.strategy->log.clear();
  run.forward()->backward();
  EXPECT_TRUE(run.strategy->log.empty());
  EXPECT_TRUE(run.model->parameters()[0].grad().defined());
}

TEST(TorchAdapter, FirstValuesDependOnSeedAndParameterAlone) {
  Hooked run;
  ModelHost& host = run.adapter->host();
  const at::Tensor last = initial_values(host, 4, c10::kCPU), first = initial_values(host, 0, c10::kCPU);
  EXPECT_FALSE(at::equal(first, last));
  const auto same = TorchAdapter::make(std::make_shared<SmallModel>(), c10::kCPU, {.seed = 5}).value();
  EXPECT_TRUE(at::equal(initial_values(same->host(), 0, c10::kCPU), first));
  EXPECT_TRUE(at::equal(initial_values(same->host(), 4, c10::kCPU), last));
  const auto other = TorchAdapter::make(std::make_shared<SmallModel>(), c10::kCPU, {.seed = 6}).value();
  EXPECT_FALSE(at::equal(initial_values(other->host(), 0, c10::kCPU), first));
}

TEST(TorchAdapter, BindingLeavesTheVersionAlone) {
  Hooked run;
  const at::Tensor weight = run.model->layers[0]->weight;
  const auto version = weight._version();
  const at::Tensor block = at::ones({64}, at::kFloat);
  ModelHost& host = run.adapter->host();
  host.bind(0, block.data_ptr()).value();
  EXPECT_EQ(weight.data_ptr(), block.data_ptr());
  EXPECT_EQ(weight.detach().sum().item<float>(), 64);
  host.unbind(0, "enough").value();
  EXPECT_EQ(weight._version(), version);
}

TEST(TorchAdapter, OnAGpuMemoryComesFromTheModelsAllocator) {
  if (!torch_has_cuda()) GTEST_SKIP() << "no GPU";
  const c10::Device gpu(c10::kCUDA, 0);
  const auto model = std::make_shared<SmallModel>(at::TensorOptions(at::kFloat).device(gpu));
  const auto adapter = TorchAdapter::make(model, gpu).value();
  DeviceCalls& memory = *adapter->host().device_memory();
  const castor_device_memory before = memory.memory().value();
  void* const data = memory.allocate(3 << 20).value();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 512, 0u);
  const castor_device_memory during = memory.memory().value();
  EXPECT_EQ(during.allocated, before.allocated + (3 << 20));
  EXPECT_GE(during.reserved, during.allocated);
  EXPECT_GT(during.total, during.reserved);
  const auto none = memory.allocate(std::uint64_t{1} << 46);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::does_not_fit);
  EXPECT_NE(none.error().message.find("; tensors hold "), std::string::npos);
  memory.deallocate(data, 3 << 20);
  memory.reset_peak();
  const castor_device_memory after = memory.memory().value();
  EXPECT_EQ(after.allocated, before.allocated);
  EXPECT_EQ(after.allocated_peak, before.allocated);
  EXPECT_EQ(after.total, during.total);
}

TEST(TorchAdapter, OnAGpuTheAllocatorKeepsWithinTheLargestLimit) {
  if (!torch_has_cuda()) GTEST_SKIP() << "no GPU";
  const c10::Device gpu(c10::kCUDA, 0);
  const auto model = std::make_shared<SmallModel>(at::TensorOptions(at::kFloat).device(gpu));
  const auto adapter = TorchAdapter::make(model, gpu).value();
  DeviceCalls& memory = *adapter->host().device_memory();
  memory.deallocate(memory.allocate(512 << 20).value(), 512 << 20);
  EXPECT_GE(memory.memory().value().reserved, std::uint64_t{512} << 20) << "it is cached";
  memory.limit(256 << 20);
  EXPECT_LT(memory.memory().value().reserved, std::uint64_t{256} << 20);
  EXPECT_FALSE(memory.allocate(300 << 20).ok());
  {
    const auto other_model = std::make_shared<SmallModel>(at::TensorOptions(at::kFloat).device(gpu));
    const auto other = TorchAdapter::make(other_model, gpu).value();
    void* const data = memory.allocate(300 << 20).value();  // the other model has no limit
    memory.deallocate(data, 300 << 20);
  }
  EXPECT_FALSE(memory.allocate(300 << 20).ok());
}

}  // namespace
}  // namespace castor::testing

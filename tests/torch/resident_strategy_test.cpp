// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/errors.h>
#include <castor/plugins/torch/runtime.h>
#include "poisoning_strategy.h"
#include "small_model.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

namespace castor::testing {
namespace {

struct Resident {
  explicit Resident(at::ScalarType dtype = at::kFloat, c10::Device where = c10::kCPU)
      : device(where), model(std::make_shared<SmallModel>(at::TensorOptions(dtype).device(where))) {}
  const c10::Device device;
  std::shared_ptr<SmallModel> model;
  std::unique_ptr<TorchAdapter> adapter = TorchAdapter::make(model, device, {.seed = 5}).value();
  std::unique_ptr<Strategy> strategy = make_resident_strategy(*adapter).value();

  at::Tensor loss(double factor = 1) {
    const at::Tensor x = small_input(model->layers[0]->weight.options());
    return (model->forward(x).to(at::kFloat) - 0.3).square().mean() * factor;
  }
  castor_step_result step(const castor_step_args& args) { return strategy->step(args).value(); }
  std::vector<float> master(std::uint32_t param) {
    std::vector<float> values(static_cast<std::size_t>(model->parameters()[param].numel()));
    strategy->read_master(param, values.data()).value();
    return values;
  }
};

constexpr castor_step_args kArgs = {sizeof(castor_step_args), CASTOR_ADAMW, 0.01, 0.9, 0.999, 1e-8, 0.1, 0, 1};

TEST(ResidentStrategy, ParametersBeginWithTheHostsValues) {
  Resident run;
  const PlainMemory expected(*TorchAdapter::make(std::make_shared<SmallModel>(), c10::kCPU, {.seed = 5}).value());
  for (std::uint32_t i = 0; i < 6; ++i)
    EXPECT_TRUE(at::equal(run.model->parameters()[i].detach(), expected.values()[i]));
}

TEST(ResidentStrategy, EveryParameterStartsAtAMultipleOf512Bytes) {
  Resident run(at::kBFloat16);
  for (const at::Tensor& parameter : run.model->parameters())
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(parameter.data_ptr()) % 512, 0u);
}

TEST(ResidentStrategy, LossesFall) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    Resident run(dtype);
    const double first = run.loss().item<double>();
    for (int i = 0; i < 60; ++i) {
      ASSERT_TRUE(run.adapter->backward(run.loss()).ok());
      EXPECT_EQ(run.step(kArgs).skipped, 0);
    }
    EXPECT_LT(run.loss().item<double>(), first / 4);
  }
}

TEST(ResidentStrategy, OnAGpuLossesFallAndRepeatTheirBits) {
  if (!torch_has_cuda()) GTEST_SKIP() << "no GPU";
  set_determinism(true);
  Resident run(at::kBFloat16, {c10::kCUDA, 0}), again(at::kBFloat16, {c10::kCUDA, 0});
  const double first = run.loss().item<double>();
  castor_step_args args = kArgs;
  args.max_norm = 1;
  for (int i = 0; i < 60; ++i)
    for (Resident* each : {&run, &again}) {
      ASSERT_TRUE(each->adapter->backward(each->loss()).ok());
      EXPECT_GT(each->step(args).grad_norm, 0);
    }
  EXPECT_LT(run.loss().item<double>(), first / 4);
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_EQ(run.master(i), again.master(i));
  EXPECT_GT(run.strategy->stats()->peak_bytes[0], 0u);
  set_determinism(false);
}

/// AdamW in fp64, written down from the paper (Loshchilov and Hutter 2019, algorithm 2), over the gradients that the
/// run really had.
struct Reference {
  std::vector<double> p, m, v;
  explicit Reference(const std::vector<float>& first) : p(first.begin(), first.end()), m(p.size()), v(p.size()) {}
  void step(const at::Tensor& grad, int t, double scale) {
    const at::Tensor g64 = grad.to(at::kDouble).contiguous();
    const double* g = g64.const_data_ptr<double>();
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double x = g[i] * scale;
      m[i] = 0.9 * m[i] + 0.1 * x;
      v[i] = 0.999 * v[i] + 0.001 * x * x;
      const double m_hat = m[i] / (1 - std::pow(0.9, t)), v_hat = v[i] / (1 - std::pow(0.999, t));
      p[i] -= 0.01 * (m_hat / (std::sqrt(v_hat) + 1e-8) + 0.1 * p[i]);
    }
  }
};

TEST(ResidentStrategy, UpdatesAreAdamWs) {
  Resident run;
  Reference reference(run.master(2));
  for (int t = 1; t <= 10; ++t) {
    const at::Tensor loss = run.loss();
    reference.step(torch::autograd::grad({loss}, {run.model->parameters()[2]}, {}, /*retain_graph=*/true)[0], t, 1);
    ASSERT_TRUE(run.adapter->backward(loss).ok());
    run.step(kArgs);
  }
  const auto master = run.master(2);
  for (std::size_t i = 0; i < master.size(); ++i) EXPECT_NEAR(master[i], reference.p[i], 2e-6) << i;
}

TEST(ResidentStrategy, ClippingScalesByTheGlobalNorm) {
  Resident run;
  const at::Tensor loss = run.loss(100);
  const auto grads = torch::autograd::grad({loss}, run.model->parameters(), {}, /*retain_graph=*/true);
  double squares = 0;
  for (const at::Tensor& grad : grads) squares += grad.to(at::kDouble).square().sum().item<double>();
  Reference reference(run.master(4));
  reference.step(grads[4], 1, 1 / (std::sqrt(squares) + 1e-6));
  ASSERT_TRUE(run.adapter->backward(loss).ok());
  castor_step_args args = kArgs;
  args.max_norm = 1;
  EXPECT_NEAR(run.step(args).grad_norm, std::sqrt(squares), 1e-9 * squares);
  ASSERT_GT(std::sqrt(squares), 1);
  const auto master = run.master(4);
  for (std::size_t i = 0; i < master.size(); ++i) EXPECT_NEAR(master[i], reference.p[i], 1e-6) << i;
}

TEST(ResidentStrategy, EachParameterHasTheValuesOfItsGroup) {
  const castor_param_group slow = {sizeof slow, 0.01, 0.9, 0.999, 1e-8, 0.1},
                           fast = {sizeof fast, 0.5, 0.8, 0.9, 1e-3, 0};
  const castor_param_group* const groups[] = {&slow, &fast};
  const std::uint32_t group_of[] = {0, 1, 1, 0, 0, 1};
  castor_step_args fast_args = kArgs;
  fast_args.lr = 0.5, fast_args.beta1 = 0.8, fast_args.beta2 = 0.9, fast_args.eps = 1e-3, fast_args.weight_decay = 0;
  castor_step_args args = kArgs;
  args.lr = 7;  // of no group
  args.n_groups = 2, args.groups = groups, args.group_of = group_of;
  Resident grouped, all_slow, all_fast;
  for (Resident* each : {&grouped, &all_slow, &all_fast}) ASSERT_TRUE(each->adapter->backward(each->loss()).ok());
  grouped.step(args), all_slow.step(kArgs), all_fast.step(fast_args);
  for (std::uint32_t i = 0; i < 6; ++i)
    EXPECT_EQ(grouped.master(i), (group_of[i] == 0 ? all_slow : all_fast).master(i)) << i;
}

TEST(ResidentStrategy, AStepThatClipsInTwoWaysIsRefused) {
  Resident run;
  castor_step_args args = kArgs;
  args.max_norm = 1, args.max_value = 1;
  const auto refused = run.strategy->step(args);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
}

TEST(ResidentStrategy, ClippingByValueClampsEachElementOfTheUnscaledGradients) {
  Resident run;
  const at::Tensor loss = run.loss(100);
  const auto grads = torch::autograd::grad({loss}, run.model->parameters(), {}, /*retain_graph=*/true);
  const double limit = grads[4].abs().median().item<double>();
  ASSERT_GT(limit, 0);
  Reference reference(run.master(4));
  reference.step(grads[4].clamp(-limit, limit), 1, 1);
  ASSERT_TRUE(run.adapter->backward(loss * 8).ok());
  castor_step_args args = kArgs;
  args.max_value = limit;
  args.loss_scale = 8;
  run.step(args);
  const auto master = run.master(4);
  for (std::size_t i = 0; i < master.size(); ++i) EXPECT_NEAR(master[i], reference.p[i], 1e-6) << i;
}

TEST(ResidentStrategy, AScaledLossUpdatesAsAnUnscaledOne) {
  Resident plain, scaled;
  ASSERT_TRUE(plain.adapter->backward(plain.loss()).ok());
  ASSERT_TRUE(scaled.adapter->backward(scaled.loss(), 4096).ok());
  castor_step_args args = kArgs;
  EXPECT_EQ(plain.step(args).grad_norm, -1);  // the step needs no norm
  args.loss_scale = 4096;
  scaled.step(args);
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_EQ(plain.master(i), scaled.master(i));
}

TEST(ResidentStrategy, TheNormMayBeMeasuredBeforeTheStep) {
  Resident run;
  EXPECT_EQ(run.strategy->measure_norm().value(), 0);
  const at::Tensor bias = run.model->layers[0]->bias;
  ASSERT_TRUE(run.adapter->backward((bias * 3).sum()).ok());
  EXPECT_DOUBLE_EQ(run.strategy->measure_norm().value(), std::sqrt(8 * 9.0));
  castor_step_args args = kArgs;
  args.max_norm = 1;
  EXPECT_DOUBLE_EQ(run.step(args).grad_norm, std::sqrt(8 * 9.0));
}

TEST(ResidentStrategy, DroppedGradientsAreThoseOfNoStep) {
  Resident run, fresh;
  ASSERT_TRUE(run.adapter->backward(run.loss(3)).ok());
  run.loss(5).backward();  // and no end: its gradients are with the parameters
  run.strategy->discard_gradients().value();
  for (Resident* each : {&run, &fresh}) {
    ASSERT_TRUE(each->adapter->backward(each->loss()).ok());
    each->step(kArgs);
  }
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_EQ(run.master(i), fresh.master(i));
}

TEST(ResidentStrategy, MicroBatchesAddUpInFp32) {
  // In bf16 the sum 1 + 2^-9 would round to 1.
  Resident run(at::kBFloat16);
  const at::Tensor bias = run.model->layers[0]->bias;
  const auto backward = [&](double value) { return run.adapter->backward((bias.to(at::kFloat) * value).sum()); };
  ASSERT_TRUE(backward(1).ok());
  ASSERT_TRUE(backward(std::ldexp(1.0, -9)).ok());
  castor_step_args args = kArgs;
  args.max_norm = 1;
  EXPECT_DOUBLE_EQ(run.step(args).grad_norm, std::sqrt(8 * std::pow(1 + std::ldexp(1.0, -9), 2)));
}

TEST(ResidentStrategy, TensorsWithoutGradientAreLeftAlone) {
  Resident run;
  const auto before = run.master(0);
  const auto trained = run.master(1);
  ASSERT_TRUE(run.adapter->backward(run.model->layers[0]->bias.sum()).ok());
  run.step(kArgs);
  EXPECT_EQ(run.master(0), before);
  EXPECT_NE(run.master(1), trained);
}

TEST(ResidentStrategy, AStepWithInfiniteGradientsIsSkipped) {
  Resident run;
  const auto before = run.master(1);
  ASSERT_TRUE(run.adapter->backward(run.loss(std::numeric_limits<double>::infinity())).ok());
  castor_step_args args = kArgs;
  args.max_norm = 1;
  EXPECT_EQ(run.step(args).skipped, 1);
  EXPECT_EQ(run.master(1), before);
  // The skipped step leaves nothing behind: the next step is the first.
  Resident fresh;
  for (Resident* each : {&run, &fresh}) {
    ASSERT_TRUE(each->adapter->backward(each->loss()).ok());
    EXPECT_EQ(each->step(kArgs).skipped, 0);
  }
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_EQ(run.master(i), fresh.master(i));
}

/// SmallModel, where `with_empty` after a parameter without elements.
class AfterAnEmptyOne final : public torch::nn::Module {
 public:
  explicit AfterAnEmptyOne(bool with_empty) {
    class Hollow final : public Unit<> {
     public:
      Hollow() : Unit("Hollow") { declare("nothing", {0, 8}, at::TensorOptions(at::kBFloat16), Init::uniform(0.1)); }
    };
    if (with_empty) register_module("hollow", std::make_shared<Hollow>());
    rest = register_module("rest", std::make_shared<SmallModel>(at::TensorOptions(at::kBFloat16)));
  }
  std::shared_ptr<SmallModel> rest;
};

/// The masters of SmallModel's parameters after some steps whose moments are rounded at random, from the same values.
std::vector<std::vector<float>> masters_after_an_empty_one(bool with_empty) {
  const auto model = std::make_shared<AfterAnEmptyOne>(with_empty);
  const auto adapter = TorchAdapter::make(model, c10::kCPU, {.seed = 5}).value();
  StateFormat format;
  format.moments = MomentFormat::bf16;
  const auto strategy = make_resident_strategy(*adapter, format).value();
  const std::uint32_t first = with_empty ? 1 : 0;
  std::vector<std::vector<float>> masters;
  for (std::uint32_t i = 0; i < 6; ++i) {
    const auto n = static_cast<std::size_t>(model->parameters()[first + i].numel());
    std::vector<float> values(n), zeros(n);
    for (std::size_t j = 0; j < n; ++j) values[j] = static_cast<float>((j * 7 + i) % 13) / 16 - 0.4f;
    strategy->values()
        .write_state({sizeof(castor_param_state), first + i, 0, n, values.data(), zeros.data(), zeros.data(), 0})
        .value();
    masters.push_back(std::move(values));
  }
  for (int step = 0; step < 6; ++step) {
    const at::Tensor x = small_input(at::TensorOptions(at::kBFloat16));
    EXPECT_TRUE(adapter->backward((model->rest->forward(x).to(at::kFloat) - 0.3).square().mean()).ok());
    strategy->step(kArgs).value();
  }
  for (std::uint32_t i = 0; i < 6; ++i) strategy->read_master(first + i, masters[i].data()).value();
  return masters;
}

/// Random roundings follow from a tensor's place among those that have elements, as on every placement.
TEST(ResidentStrategy, AParameterWithoutElementsChangesNoOther) {
  EXPECT_EQ(masters_after_an_empty_one(true), masters_after_an_empty_one(false));
}

TEST(ResidentStrategy, ConnectingItAddsNoHooks) {
  Resident run;
  run.adapter->connect(run.strategy.get());
  ASSERT_TRUE(run.adapter->backward(run.loss()).ok());
  const auto before = run.master(0);
  run.step(kArgs);
  EXPECT_NE(run.master(0), before);
}

TEST(ResidentStrategy, CountsWhatItHolds) {
  Resident run(at::kBFloat16);
  const castor_stats stats = run.strategy->stats().value();
  const std::uint64_t n = 3 * (64 + 8);
  EXPECT_GE(stats.used_bytes[0], n * (2 + 12));
  EXPECT_LE(stats.used_bytes[0], n * (2 + 12) + 6 * 512);
  ASSERT_TRUE(run.adapter->backward(run.loss()).ok());
  EXPECT_EQ(run.strategy->stats()->peak_bytes[0], stats.used_bytes[0] + n * 2);
  EXPECT_EQ(stats.used_bytes[1], 0u);
  EXPECT_EQ(stats.budget_bytes[0], std::numeric_limits<std::uint64_t>::max());
}

TEST(ResidentStrategy, KeepsNoTrace) {
  Resident run;
  const auto written = run.strategy->write_trace("trace");
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace castor::testing

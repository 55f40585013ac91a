// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/session.h>

#include <gtest/gtest.h>

#include <castor/plugins/torch/errors.h>
#include <castor/plugins/torch/runtime.h>
#include <castor/plugins/torch/torch_adapter.h>
#include <castor/plugins/torch/unit.h>

#include <ATen/DeviceAccelerator.h>
#include <torch/nn/modules/linear.h>

#include <limits>

#include "../support/scratch_folder.h"
#include "small_model.h"

namespace castor::testing {
namespace {

using namespace literals;
using test::ScratchFolder;

const std::vector<std::string> kNames = {"layer0.weight", "layer0.bias",   "layer1.weight",
                                         "layer1.bias",   "layer2.weight", "layer2.bias"};

/// A model, in bf16 on the CPU unless said otherwise, and its session.
struct SmallRun {
  SmallRun(const StrategyChoice& choice, SessionOptions options = {}, const Optimizer& optimizer = AdamW{.lr = 0.01},
           const at::TensorOptions& tensors = at::kBFloat16)
      : model(std::make_shared<SmallModel>(tensors)),
        session(boost(model, choice, optimizer, std::move(options)).value()) {}

  /// The loss of the batch with this number, which no two batches share.
  at::Tensor loss(std::int64_t batch) {
    const at::Tensor x = small_input(model->layers[0]->weight.options().requires_grad(false)).roll(batch, 0);
    const double target = 0.3 + 0.01 * static_cast<double>(batch);
    return guard([&] { return (model->forward(x).to(at::kFloat) - target).square().mean(); }).value();
  }
  StepOutcome step(std::int64_t n_micro = 1) {
    for (std::int64_t micro = 0; micro < n_micro; ++micro)
      session.backward(loss(session.n_steps() * n_micro + micro)).value();
    return session.step().value();
  }
  void steps(int n) {
    for (int i = 0; i < n; ++i) step();
  }
  std::string digest() { return session.digest().value(); }

  std::shared_ptr<SmallModel> model;
  Session session;
};

/// The digest of `n` resident steps.
std::string resident_digest(int n, const SessionOptions& options = {}) {
  SmallRun run(castor::Resident{}, options);
  run.steps(n);
  return run.digest();
}

/// Chunks of one layer each. The device holds one layer, the host what must pass through it, the drive the rest.
Gemini three_tiers(const ScratchFolder& folder) {
  return {.device_budget = 8_KiB,
          .host_budget = 1_MiB,
          .nvme = {folder.path()},
          .nvme_offload_fraction = 1,
          .set = {{"chunk_bytes", "1KiB"}}};
}

std::string message_of(const Result<void>& refused, ErrorKind kind = ErrorKind::usage) {
  EXPECT_FALSE(refused.ok());
  if (refused.ok()) return "";
  EXPECT_EQ(refused.error().kind, kind);
  return refused.error().message;
}

template <typename T>
std::string message_of(const Result<T>& refused, ErrorKind kind = ErrorKind::usage) {
  return message_of(refused.ok() ? Result<void>() : Result<void>(refused.error()), kind);
}

TEST(Session, OnThreeTiersItTrainsAsTheResidentRunToTheBit) {
  const ScratchFolder folder;
  SmallRun tiered(three_tiers(folder));
  tiered.steps(5);
  EXPECT_EQ(tiered.digest(), resident_digest(5));
  const RunStats stats = tiered.session.stats().value();
  EXPECT_GT(stats.moved_bytes[index(Link::nvme_write)], 0u);
  EXPECT_GT(stats.moved_bytes[index(Link::h2d)], 0u);
  EXPECT_EQ(stats.budget_bytes[0], std::optional<std::uint64_t>(8192));
}

/// One step of SGD from the definition, on the gradients of plain autograd: w − lr·g, in fp64.
TEST(Session, AStepOfSgdIsThatOfPlainTorch) {
  SmallRun run(Gemini{}, {}, Sgd{.lr = 0.5}, at::kFloat);
  std::vector<at::Tensor> before;
  for (const std::string& name : kNames) before.push_back(run.session.read_master(name).value());
  SmallRun plain(castor::Resident{}, {}, Sgd{.lr = 0.5}, at::kFloat);
  plain.loss(0).backward();
  run.step();
  const auto grads = plain.model->parameters();
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const at::Tensor expected = before[i].to(at::kDouble) - 0.5 * grads[i].grad().to(at::kDouble);
    EXPECT_TRUE(at::allclose(run.session.read_master(kNames[i]).value().to(at::kDouble), expected, 1e-6, 1e-7)) << i;
  }
}

/// The lines of told_micro_batches.c, whose flags are 1 for the last of a step and 2 where its gradients stay here.
TEST(Session, TheStrategyIsToldOfEachMicroBatchBeforeItsFirstUnit) {
  std::vector<std::string> told;
  SmallRun run(PluginByName{TOLD_MICRO_BATCHES},
               {.micro_batches = 2, .log = [&](castor_log_level, std::string_view text) { told.emplace_back(text); }},
               AdamW{.lr = 0.01}, at::kFloat);
  const auto lines = [&] { return std::exchange(told, {}); };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(lines(), Lines());
  const at::Tensor first = run.loss(0);
  EXPECT_EQ(lines(), Lines({"micro-batch 0 of 2, flags 0"})) << "before its first unit";
  const at::Tensor more = run.loss(1);
  EXPECT_EQ(lines(), Lines()) << "a micro-batch of two forward passes";
  run.session.backward(first + more).value();
  run.session.backward(run.loss(2)).value();
  EXPECT_EQ(lines(), Lines({"micro-batch 1 of 2, flags 1"}));
  run.session.step().value();
  EXPECT_EQ(lines(), Lines()) << "after the last one there is none";
  {
    const at::NoGradGuard evaluation;
    (void)run.loss(4);
  }
  EXPECT_EQ(lines(), Lines()) << "evaluation";
  {
    const auto hold = run.session.no_sync();
    for (int micro = 0; micro < 2; ++micro) run.session.backward(run.loss(micro)).value();
  }
  run.session.backward(run.loss(5)).value();
  EXPECT_EQ(lines(),
            Lines({"micro-batch 0 of 0, flags 2", "micro-batch 1 of 0, flags 2", "micro-batch 2 of 3, flags 1"}));
  run.session.step().value();
}

TEST(Session, MicroBatchesAreAveraged) {
  const ScratchFolder folder;
  for (const StrategyChoice& choice : {StrategyChoice(castor::Resident{}), StrategyChoice(three_tiers(folder))}) {
    SmallRun whole(choice, {.micro_batches = 3}), held(choice);
    for (int i = 0; i < 3; ++i) {
      whole.step(3);
      {
        const auto hold = held.session.no_sync();
        for (int micro = 0; micro < 2; ++micro) held.session.backward(held.loss(i * 3 + micro) / 3).value();
      }
      held.session.backward(held.loss(i * 3 + 2) / 3).value();
      held.session.step().value();
    }
    for (const std::string& name : kNames)
      EXPECT_TRUE(
          at::allclose(whole.session.read_master(name).value(), held.session.read_master(name).value(), 1e-2, 1e-3))
          << name;
    EXPECT_EQ(whole.session.n_steps(), 3);
  }
}

TEST(Session, ValuesThatMayChangeAreThoseOfTheStep) {
  SmallRun constant(Gemini{}, {}, AdamW{.lr = 0.25}), changed(Gemini{}, {.values_may_change = true}, AdamW{.lr = 1});
  constant.step();
  changed.session.backward(changed.loss(0)).value();
  changed.session.set_optimizer(AdamW{.lr = 0.25}).value();
  changed.session.step().value();
  EXPECT_EQ(changed.digest(), constant.digest());
}

TEST(Session, ValuesOfAnAnnouncedStepStay) {
  SmallRun run(Gemini{});
  run.session.backward(run.loss(0)).value();
  EXPECT_EQ(message_of(run.session.set_optimizer(AdamW{.lr = 1})).rfind("the step was announced with other values", 0),
            0u);
  run.session.step().value();
  EXPECT_TRUE(run.session.set_optimizer(AdamW{.lr = 1}).ok());
  EXPECT_EQ(message_of(run.session.set_optimizer(AdamW{.lr = -1})),
            "lr takes a finite number of 0 or more, not -1.000000");
  EXPECT_EQ(message_of(run.session.set_optimizer(Sgd{})),
            "the session trains by another rule than sgd; save the run and resume it in a session of that rule");
  EXPECT_EQ(run.step().lr, 1);
}

TEST(Session, ScheduleGroupsAndClippingAreThoseOfTheOptions) {
  const LrScheduleOptions schedule{.kind = LrScheduleKind::linear, .decay_steps = 4};
  const SessionOptions options{
      .groups = {{.selector = kVectors, .weight_decay = 0}}, .schedule = schedule, .max_norm = 1e-3};
  SmallRun run(Gemini{}, options, AdamW{.lr = 1});
  ASSERT_EQ(run.session.groups().size(), 2u);
  EXPECT_EQ(run.session.groups()[0].n_params, 24u);
  EXPECT_EQ(run.session.n_params(), 3u * (64 + 8));
  for (const double rate : {1.0, 0.75, 0.5, 0.25}) {
    const StepOutcome outcome = run.step();
    EXPECT_EQ(outcome.lr, rate);
    ASSERT_TRUE(outcome.grad_norm);
    EXPECT_GT(*outcome.grad_norm, 1e-3);
  }
  SmallRun resident(castor::Resident{}, options, AdamW{.lr = 1});
  resident.steps(4);
  EXPECT_EQ(run.digest(), resident.digest());
}

TEST(Session, Fp16ScalesItsLossWithoutBeingAsked) {
  SmallRun run(castor::Resident{}, {}, AdamW{}, at::kHalf);
  EXPECT_EQ(run.session.loss_scale(), 65536);
  SmallRun small(castor::Resident{}, {.scaler = GradScalerOptions{.initial_scale = 2, .growth_interval = 1}}, AdamW{},
                 at::kHalf);
  EXPECT_FALSE(small.step().skipped);
  EXPECT_EQ(small.session.loss_scale(), 4);
}

TEST(Session, AResumedRunIsTheUninterruptedOne) {
  const ScratchFolder nvme, other, saved;
  const std::filesystem::path folder = std::filesystem::path(saved.path()) / "run";
  {
    SmallRun first(three_tiers(nvme));
    first.steps(3);
    first.session.set_data_position("batch 3");
    EXPECT_GT(first.session.save(folder)->written_bytes, 0u);
  }
  for (const StrategyChoice& choice : {StrategyChoice(castor::Resident{}), StrategyChoice(three_tiers(other))}) {
    SmallRun rest(choice);
    rest.session.resume({folder}).value();
    EXPECT_EQ(rest.session.n_steps(), 3);
    EXPECT_EQ(rest.session.data_position(), "batch 3");
    rest.steps(3);
    EXPECT_EQ(rest.digest(), resident_digest(6));
  }
}

TEST(Session, ARunIsSavedBeforeItsFirstStep) {
  const ScratchFolder saved, other, nvme;
  SmallRun first(three_tiers(nvme), {.seed = 7});
  first.session.save(saved.path()).value();
  first.steps(2);
  for (const StrategyChoice& choice : {StrategyChoice(castor::Resident{}), StrategyChoice(three_tiers(other))}) {
    SmallRun run(choice, {.seed = 8});
    run.session.resume({saved.path()}).value();
    EXPECT_EQ(run.session.n_steps(), 0);
    run.steps(2);
    EXPECT_EQ(run.digest(), first.digest());
  }
}

TEST(Session, ACommitBeforeTheFirstStepGoesOn) {
  const ScratchFolder nvme;
  Gemini kept = three_tiers(nvme);
  kept.durability = Durability::commit;
  SmallRun(kept).session.save().value();
  SmallRun rest(kept);
  rest.session.resume({nvme.path()}).value();
  rest.steps(2);
  EXPECT_EQ(rest.digest(), resident_digest(2));
}

/// Also where some steps were made since, and states and weights lie anywhere.
TEST(Session, ARunThatHasGoneOnIsResumed) {
  const ScratchFolder other, saved;
  for (const StrategyChoice& choice : {StrategyChoice(castor::Resident{}), StrategyChoice(three_tiers(other))}) {
    const std::filesystem::path folder = std::filesystem::path(saved.path()) / std::to_string(choice.index());
    SmallRun run(choice, {.max_norm = 0.5});
    run.steps(2);
    run.session.save(folder).value();
    for (int again = 0; again < 2; ++again) {
      run.steps(5);
      run.session.resume({folder}).value();
      EXPECT_EQ(run.session.n_steps(), 2);
    }
    run.steps(3);
    EXPECT_EQ(run.digest(), resident_digest(5, {.max_norm = 0.5}));
  }
}

TEST(Session, AGraphThatIsOlderThanAResumeIsRefused) {
  const ScratchFolder saved;
  SmallRun run(Gemini{});
  run.steps(2);
  run.session.save(saved.path()).value();
  run.steps(1);
  const at::Tensor older = run.loss(3);
  run.session.resume({saved.path()}).value();
  EXPECT_NE(message_of(run.session.backward(older), ErrorKind::failed).find("modified by an inplace operation"),
            std::string::npos);
  run.session.zero_grad().value();
  run.steps(1);
  EXPECT_EQ(run.digest(), resident_digest(3));
}

TEST(Session, ACommitOfItsOwnIsGoneBackToBeforeTheFirstStep) {
  const ScratchFolder nvme, other;
  Gemini kept = three_tiers(nvme);
  kept.durability = Durability::commit;
  SmallRun run(kept);
  run.steps(1);
  run.session.save().value();
  run.session.save(other.path()).value();
  run.steps(1);
  EXPECT_NE(message_of(run.session.resume({nvme.path()})).find("before the first step alone; boost the model anew"),
            std::string::npos);
  run.session.resume({other.path()}).value();
  run.steps(1);
  EXPECT_EQ(run.digest(), resident_digest(2));
}

TEST(Session, ACommitInTheFoldersOfTheDriveGoesOn) {
  const ScratchFolder nvme;
  Gemini kept = three_tiers(nvme);
  kept.durability = Durability::commit;
  {
    SmallRun first(kept);
    EXPECT_TRUE(first.session.saves());
    first.steps(3);
    first.session.save().value();
  }
  {
    SmallRun rest(kept);
    rest.session.resume({nvme.path()}).value();
    rest.steps(1);
    rest.session.save().value();
  }
  SmallRun rest(kept, {.resume_from = {nvme.path()}});
  EXPECT_EQ(rest.session.n_steps(), 4);
  rest.steps(2);
  EXPECT_EQ(rest.digest(), resident_digest(6));
}

/// y = (W·c).sum(), element by element, so that no order of memory changes a bit.
struct Weighed final : Unit<> {
  explicit Weighed(const at::Tensor& values) : Unit("Weighed") { weight = register_parameter("weight", values); }
  at::Tensor forward(const at::Tensor& factors) {
    return run(factors, [&](const at::Tensor& c) { return (weight * c).square().sum(); });
  }
  at::Tensor weight;
};

/// One weight of 5 × 6 × 7 in a session.
struct WeighedRun {
  WeighedRun(const at::Tensor& values, const StrategyChoice& choice)
      : model(std::make_shared<Weighed>(values)), session(boost(model, choice, AdamW{.lr = 0.01}).value()) {}
  void steps(int n) {
    for (int i = 0; i < n; ++i) {
      const auto turn = static_cast<double>(session.n_steps());
      const at::Tensor factors = at::cos(at::arange(210, at::kFloat).view({5, 6, 7}) * 0.1 + turn);
      session.backward(guard([&] { return model->forward(factors); }).value()).value();
      session.step().value();
    }
  }
  at::Tensor weight() { return session.read_master("weight").value(); }

  std::shared_ptr<Weighed> model;
  Session session;
};

/// Saved by a checkpoint, and by a commit of the strategy itself: masters, both moments and the counter are turned.
TEST(Session, ARunGoesOnInAnotherOrderOfMemory) {
  const at::Tensor values = at::sin(at::arange(210, at::kFloat)).view({5, 6, 7});
  const at::Tensor turned = values.permute({2, 0, 1}).contiguous().permute({1, 2, 0});
  ASSERT_NE(turned.strides(), values.strides());
  WeighedRun whole(values.clone(), castor::Resident{});
  whole.steps(6);
  for (const bool commits : {false, true}) {
    const ScratchFolder nvme, saved;
    Gemini kept = three_tiers(nvme);
    if (commits) kept.durability = Durability::commit;
    {
      WeighedRun first(turned.clone(), kept);
      first.steps(3);
      (commits ? first.session.save() : first.session.save(saved.path())).value();
    }
    WeighedRun rest(at::zeros({5, 6, 7}), castor::Resident{});
    rest.session.resume({commits ? nvme.path() : saved.path()}).value();
    rest.steps(3);
    EXPECT_TRUE(at::equal(rest.weight(), whole.weight())) << commits;
    if (!commits) continue;
    WeighedRun other(values.clone(), kept);
    EXPECT_EQ(message_of(other.session.resume({nvme.path()})),
              "`resume_from` " + std::string(nvme.path()) +
                  ": parameter weight lies in another order of memory than in that commit; save in other folders, so "
                  "that its values are turned");
  }
}

/// By a checkpoint, and by a commit of the strategy.
TEST(Session, AStateThatIsNotFiniteNeverReplacesOneThatIs) {
  for (const bool commits : {false, true}) {
    const ScratchFolder nvme, saved;
    Gemini kept = three_tiers(nvme);
    if (commits) kept.durability = Durability::commit;
    SessionOptions options;
    if (!commits) options.save_in = {saved.path()};
    std::string good;
    {
      SmallRun run(kept, options);
      run.steps(2);
      run.session.save().value();
      good = run.digest();
      EXPECT_EQ(run.session.not_finite().value(), std::nullopt);
      for (const float wild : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        at::Tensor bias = at::zeros(8);
        bias[7] = wild;
        run.session.load({{"layer2.bias", bias}}).value();
        EXPECT_EQ(run.session.not_finite().value(), "master of layer2.bias");
        EXPECT_EQ(message_of(run.session.save(), ErrorKind::failed),
                  "master of layer2.bias holds inf or nan, so the state is not saved, and the last one that was saved "
                  "stays; continue from there with a lower learning rate or clipped gradients");
      }
    }
    SmallRun rest(castor::Resident{});
    rest.session.resume({commits ? nvme.path() : saved.path()}).value();
    EXPECT_EQ(rest.digest(), good);
  }
}

TEST(Session, LeavesItsWeightsToTheModel) {
  const ScratchFolder nvme;
  std::vector<std::string> digests;
  for (const StrategyChoice& choice : {StrategyChoice(castor::Resident{}), StrategyChoice(three_tiers(nvme))}) {
    NamedTensors weights;
    auto model = std::make_shared<SmallModel>(at::kBFloat16);
    {
      SmallRun run(choice);
      run.steps(3);
      weights = run.session.state_dict().value();
      model = run.model;
    }
    ASSERT_EQ(weights.size(), kNames.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      EXPECT_EQ(weights[i].first, kNames[i]);
      model->named_parameters()[kNames[i]].set_data(weights[i].second);
    }
    const at::Tensor output = model->forward(small_input(at::kBFloat16));
    EXPECT_TRUE(output.requires_grad());
    Session session = boost(model, choice, AdamW{.lr = 0.01}).value();
    EXPECT_TRUE(at::equal(guard([&] { return model->forward(small_input(at::kBFloat16)); }).value(), output));
    for (const auto& [name, weight] : weights)
      EXPECT_TRUE(at::equal(session.read_master(name).value(), weight.to(at::kFloat))) << name;
    digests.push_back(session.digest().value());
  }
  EXPECT_EQ(digests[0], digests[1]);
}

TEST(Session, RoundsWeightsInStateDictAsUpdatesDo) {
  const float tie = 1 + 0x1p-8f;  // between 1 and 1 + 2^-7: to nearest even it would be 1
  SmallRun run(castor::Resident{});
  run.session.load({{kNames[0], at::full_like(run.model->named_parameters()[kNames[0]], tie, at::kFloat)}}).value();
  const at::Tensor weight = run.session.state_dict().value()[0].second;
  EXPECT_TRUE(at::equal(weight.to(at::kFloat), at::full(weight.sizes(), 1 + 0x1p-7f)));
  EXPECT_TRUE(at::equal(weight, run.model->named_parameters()[kNames[0]])) << "the model computes with the same";
}

TEST(Session, LoadsValuesAndKeepsMomentsAndCounters) {
  const ScratchFolder nvme;
  std::vector<std::string> digests;
  for (const StrategyChoice& choice : {StrategyChoice(castor::Resident{}), StrategyChoice(three_tiers(nvme))}) {
    SmallRun run(choice);
    run.steps(2);
    const at::Tensor ones = at::full({8, 8}, 0.125).t();
    run.session.load({{"layer1.weight", ones}}).value();
    EXPECT_TRUE(at::equal(run.session.read_master("layer1.weight").value(), ones));
    run.steps(2);
    digests.push_back(run.digest());
    EXPECT_EQ(message_of(run.session.load({{"layer1.weigth", ones}})),
              "there is no parameter 'layer1.weigth' among the 6 of the model; did you mean 'layer1.weight'?");
    EXPECT_EQ(message_of(run.session.load({{"layer1.bias", ones}})),
              "the values for parameter layer1.bias have other sizes than it has");
    EXPECT_EQ(message_of(run.session.load({{"layer1.weight", ones}, {"layer1.weight", ones}})),
              "parameter layer1.weight is given values twice");
    run.session.backward(run.loss(9)).value();
    EXPECT_EQ(message_of(run.session.load({})), "a step is under way; end it with step(), or drop it with zero_grad()");
  }
  EXPECT_EQ(digests[0], digests[1]);
}

TEST(Session, TwoInOneProcessShareNothing) {
  const ScratchFolder nvme;
  const SessionOptions seeded{.seed = 7};
  SmallRun one(three_tiers(nvme)), two(Gemini{.device_budget = 8192, .set = {{"chunk_bytes", "1KiB"}}}, seeded);
  for (int i = 0; i < 3; ++i) {
    const at::Tensor loss = one.loss(i);
    two.session.backward(two.loss(i)).value();
    one.session.backward(loss).value();
    two.session.step().value();
    one.session.step().value();
  }
  EXPECT_EQ(one.digest(), resident_digest(3));
  EXPECT_EQ(two.digest(), resident_digest(3, seeded));
  EXPECT_NE(one.digest(), two.digest());
}

TEST(Session, MovesAndEndsWithItsGraphs) {
  auto run = std::make_unique<SmallRun>(Gemini{});
  Session moved = std::move(run->session);
  moved.backward(run->loss(0)).value();
  moved.step().value();
  const Session assigned = std::exchange(moved, boost(std::make_shared<SmallModel>(), Gemini{}, AdamW{}).value());
  EXPECT_EQ(assigned.n_steps(), 1);
  EXPECT_EQ(moved.n_steps(), 0);
}

TEST(Session, CallsOutOfOrderAreRefused) {
  const ScratchFolder saved;
  SmallRun run(Gemini{});
  EXPECT_EQ(message_of(run.session.step()), "step() without gradients: call backward() first");
  run.step();
  EXPECT_EQ(message_of(run.session.save()), "the run has no folder to be saved in; name one");
  const at::Tensor loss = run.loss(1), another = run.loss(2);
  run.session.backward(loss).value();
  EXPECT_EQ(message_of(run.session.backward(another)),
            "the step has had its last backward pass; call step(), or raise micro_batches");
  EXPECT_EQ(message_of(run.session.resume({saved.path()})),
            "a step is under way; end it with step(), or drop it with zero_grad()");
}

TEST(Session, AStepThatIsBrokenOffIsDroppedAndTakenAgain) {
  bool stop = false;
  SmallRun run(Gemini{}, {.interrupted = [&stop] { return stop; }});
  run.step();
  const at::Tensor loss = run.loss(1);
  stop = true;
  EXPECT_EQ(message_of(run.session.backward(loss), ErrorKind::interrupted), "stopped by the user");
  stop = false;
  EXPECT_EQ(message_of(run.session.step()),
            "a call of this step has failed; drop the step with zero_grad() and begin it anew");
  run.session.zero_grad().value();
  run.steps(2);
  EXPECT_EQ(run.digest(), resident_digest(3));
}

TEST(Session, ARunIsNotSavedOverAnother) {
  const ScratchFolder saved;
  {
    SmallRun first(castor::Resident{}, {.save_in = {saved.path()}});
    first.steps(2);
    first.session.save().value();
  }
  const std::string wanted =
      saved.path() +
      std::string(" holds a run of 2 steps already; continue it with `resume_from`, or name another folder");
  const auto model = std::make_shared<SmallModel>();
  EXPECT_EQ(message_of(boost(model, castor::Resident{}, AdamW{}, {.save_in = {saved.path()}})), wanted);
  SmallRun other(castor::Resident{});
  other.step();
  EXPECT_EQ(message_of(other.session.save(saved.path())), wanted);
  SmallRun rest(castor::Resident{}, {.save_in = {saved.path()}, .resume_from = {saved.path()}});
  rest.step();
  EXPECT_TRUE(rest.session.save().ok());
}

TEST(Session, WhatCannotBeIsRefusedBeforeAnyParameterHasMemory) {
  const auto refused = [](const StrategyChoice& choice, const SessionOptions& options, const Optimizer& optimizer) {
    const auto model = std::make_shared<SmallModel>();
    const auto made = boost(model, choice, optimizer, options);
    const auto memory = guard([&] { return model->parameters()[0].storage().data(); });
    EXPECT_TRUE(!memory.ok() || *memory == nullptr);
    return message_of(made);
  };
  EXPECT_EQ(refused(Gemini{}, {}, AdamW{.betas = {1, 0.9}}), "beta1 takes a number from 0 to below 1, not 1.000000");
  EXPECT_EQ(refused(Gemini{}, {.micro_batches = 0}, AdamW{}),
            "micro_batches takes the backward passes of a step, 1 or more, not 0");
  EXPECT_EQ(refused(Gemini{}, {.groups = {{.selector = "*.bais", .lr = 1}}}, AdamW{}),
            "`groups` *.bais: selects none of the 6 parameters of the model; the first is 'layer0.weight'; did "
            "you mean '*.bias'?");
  EXPECT_NE(refused(Gemini{.set = {{"colour", "red"}}}, {}, AdamW{}).find("colour"), std::string::npos);
  EXPECT_EQ(refused(Gemini{}, {.resume_from = {"/nowhere"}}, AdamW{}),
            "`resume_from` /nowhere: there is no such folder");
}

TEST(Session, AnUnknownParameterIsRefusedWithANearOne) {
  SmallRun run(castor::Resident{});
  EXPECT_EQ(message_of(run.session.read_master("layer0.wieght")),
            "there is no parameter 'layer0.wieght' among the 6 of the model; did you mean 'layer0.weight'?");
}

TEST(Session, ATraceIsWritten) {
  const ScratchFolder folder;
  const std::filesystem::path file = std::filesystem::path(folder.path()) / "t.json";
  SmallRun run(Gemini{});
  run.step();
  EXPECT_TRUE(run.session.trace(file).ok());
  EXPECT_GT(std::filesystem::file_size(file), 0u);
}

/// The digest of 5 steps on GPU `ordinal`, whose optimizer states are on the drive.
std::string digest_on_gpu(int ordinal) {
  const ScratchFolder folder;
  const at::Device device = open_gpu(ordinal).value();
  const Gemini tiers = {
      .device_budget = 256_MiB, .host_budget = 64_MiB, .nvme = {folder.path()}, .nvme_offload_fraction = 1};
  SmallRun run(tiers, {}, AdamW{.lr = 0.01}, at::TensorOptions(at::kBFloat16).device(device));
  run.steps(5);
  EXPECT_EQ(run.model->layers[0]->weight.device(), device);
  EXPECT_GT(run.session.stats().value().peak_bytes[index(Tier::device)], 0u);
  return run.digest();
}

TEST(Session, OnAnotherGpuItHasTheBitsOfTheFirst) {
  if (!torch_has_cuda() || at::accelerator::deviceCount() < 2) GTEST_SKIP() << "needs two GPUs";
  set_determinism(true);
  const std::string on_other = digest_on_gpu(1), on_first = digest_on_gpu(0);
  EXPECT_EQ(on_other, on_first);
  set_determinism(false);
}

/// Layers of LibTorch as they are, which the session runs as units.
struct PlainNet final : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x, Session& session) {
    return session.run(*second, at::relu(session.run(*first, x)));
  }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(8, 16));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(16, 4));
};

std::string plain_net_digest(const StrategyChoice& choice) {
  at::manual_seed(3);
  const auto net = std::make_shared<PlainNet>();
  Session session = boost(net, choice, AdamW{}, {.is_unit = exactly({net->first.ptr(), net->second.ptr()})}).value();
  for (int step = 0; step < 3; ++step) {
    session.backward(net->forward(at::full({2, 8}, 0.1 * step + 0.5), session).square().sum()).value();
    session.step().value();
  }
  return session.digest().value();
}

TEST(Session, RunsModulesThatTheUserChoseAsUnits) {
  const ScratchFolder folder;
  EXPECT_EQ(plain_net_digest(three_tiers(folder)), plain_net_digest(castor::Resident{}));
}

}  // namespace
}  // namespace castor::testing

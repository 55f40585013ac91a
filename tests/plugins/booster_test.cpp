// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/booster.h>

#include "fake_model_host.h"

#include <gtest/gtest.h>

namespace castor {
namespace {

using test::FakeModelHost;
using Calls = std::vector<std::string>;

Plugin load(const std::string& name) {
  const bool is_stub = name.starts_with("stub_");
  return PluginLoader("", {STUB_DIR}).load(is_stub ? name : MINIMAL_C).value();
}

Booster booster(const std::string& name, const PluginOptions& options = {}) {
  return Booster::make(load(name), options).value();
}

const std::vector<test::FakeParam> kParams = {{"w", {3}, test::kFp32, {1, 2, 3}}, {"b", {1}, test::kFp32, {4}}};
const std::vector<test::FakeUnit> kUnits = {{"linear", {0, 1}}};

Error refusal(const std::string& plugin, FakeModelHost& model) {
  auto strategy = booster(plugin).boost(model);
  return strategy.ok() ? Error{ErrorKind::failed, "it was accepted"} : strategy.error();
}

TEST(Booster, RefusesOptionsWhenConfigured) {
  const auto made = Booster::make(load("stub_recorder"), {{"depth", "17"}});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::usage);
  EXPECT_EQ(made.error().message,
            "plugin stub_recorder: option 'depth': '17' is out of range; it takes a whole number from 1 to 16");
}

TEST(Booster, HandsOverEachOptionOnceThenAttaches) {
  FakeModelHost model(kParams, kUnits);
  const auto strategy =
      booster("stub_recorder", {{"chunk", "1MiB"}, {"policy", "cpu"}, {"prefetch", "false"}}).boost(model);
  ASSERT_TRUE(strategy.ok()) << strategy.error().message;
  EXPECT_EQ(model.calls(),
            Calls({"chunk=1048576", "depth=4", "fraction=0.5", "label=", "policy=cpu", "prefetch=false", "attach"}));
}

TEST(Booster, PassesEveryCallOn) {
  FakeModelHost model(kParams, kUnits);
  auto strategy = booster("stub_recorder").boost(model).value();
  const std::size_t n_before = model.calls().size();
  float master = 0;
  castor_step_args args{};
  args.lr = 0.25;
  EXPECT_TRUE(strategy->before_forward(1).ok());
  EXPECT_TRUE(strategy->after_forward(2).ok());
  EXPECT_TRUE(strategy->before_backward(3).ok());
  EXPECT_TRUE(strategy->gradient(1, model.make_gradient(1, {0})).ok());
  EXPECT_TRUE(strategy->end_of_backward().ok());
  EXPECT_TRUE(strategy->abandon_step().ok());
  const auto stepped = strategy->step(args).value();
  EXPECT_TRUE(strategy->read_master(0, &master).ok());
  const auto stats = strategy->stats().value();
  EXPECT_TRUE(strategy->write_trace("/tmp/t.json").ok());
  strategy.reset();
  EXPECT_EQ(Calls(model.calls().begin() + n_before, model.calls().end()),
            Calls({"before_forward 1", "after_forward 2", "before_backward 3", "gradient 1", "end_of_backward",
                   "abandon_step", "step lr=0.25", "read_master 0",
                   "stats of " + std::to_string(sizeof(castor_stats)) + " bytes", "write_trace /tmp/t.json",
                   "destroy"}));
  EXPECT_EQ(model.n_live_gradients(), 0);
  EXPECT_EQ(stepped.skipped, 1);
  EXPECT_EQ(stepped.grad_norm, 2.5);
  EXPECT_EQ(master, 7);
  EXPECT_EQ(stats.h2d_bytes, 11u);
}

castor_step_args with_groups() {
  static constexpr castor_param_group kGroup = {sizeof kGroup, 1, 0.9, 0.99, 1e-8, 0};
  static constexpr const castor_param_group* kGroups[] = {&kGroup};
  static constexpr std::uint32_t kGroupOf[] = {0, 0};
  castor_step_args args{};
  args.struct_size = sizeof args;
  args.n_groups = 1, args.groups = kGroups, args.group_of = kGroupOf;
  return args;
}

castor_step_args with_max_value() {
  castor_step_args args{};
  args.struct_size = sizeof args;
  args.max_value = 0.5;
  return args;
}

castor_step_args with(castor_optimizer optimizer) {
  castor_step_args args{};
  args.struct_size = sizeof args;
  args.optimizer = optimizer;
  return args;
}

TEST(Booster, APluginOfThisVersionSupportsGroupsAndClippingByValue) {
  EXPECT_TRUE(booster("stub_recorder").supports(with_groups()).ok());
  EXPECT_TRUE(booster("stub_recorder").supports(with_max_value()).ok());
  EXPECT_TRUE(booster("stub_recorder").supports(with(CASTOR_SGD)).ok());
  EXPECT_TRUE(booster("stub_recorder").supports(with(CASTOR_LAMB)).ok());
}

TEST(Booster, RefusesWhatAnOlderPluginDoesNotKnow) {
  const Plugin recorder = load("stub_recorder");
  castor_plugin_info older = *recorder.info;
  older.abi_minor = 4;
  const Booster booster = Booster::make({recorder.path, &older}, {}).value();
  EXPECT_TRUE(booster.supports({sizeof(castor_step_args)}).ok());
  const auto refused = booster.supports(with_groups());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_EQ(
      refused.error().message,
      "plugin stub_recorder speaks plugin ABI 1.4 and knows no groups of parameters, which ABI 1.5 added; leave them "
      "out, or take a newer plugin");
  EXPECT_NE(booster.supports(with_max_value()).error().message.find("knows no clipping by value"), std::string::npos);
  EXPECT_EQ(
      booster.supports(with(CASTOR_SGD)).error().message,
      "plugin stub_recorder speaks plugin ABI 1.4 and knows no optimizer but Adam and AdamW, which ABI 1.6 added; "
      "take one of these, or take a newer plugin");
  older.abi_minor = 8;
  EXPECT_TRUE(booster.supports(with(CASTOR_LARS)).ok());
  EXPECT_EQ(
      booster.supports(with(CASTOR_LAMB)).error().message,
      "plugin stub_recorder speaks plugin ABI 1.8 and knows no LAMB, which ABI 1.9 added; take another optimizer, "
      "or take a newer plugin");
  older.abi_minor = 4;

  FakeModelHost model(kParams, kUnits);
  auto strategy = booster.boost(model).value();
  const std::size_t n_before = model.calls().size();
  EXPECT_FALSE(strategy->step(with_groups()).ok());
  EXPECT_EQ(model.calls().size(), n_before) << "it is not even asked";
  EXPECT_TRUE(strategy->step({sizeof(castor_step_args)}).ok());
}

TEST(Booster, RefusesAStepThatCannotBe) {
  FakeModelHost model(kParams, kUnits);
  auto strategy = booster("stub_recorder").boost(model).value();
  castor_step_args args = with_max_value();
  args.max_norm = 1;
  const auto refused = strategy->step(args);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
}

TEST(Booster, AStatusBecomesAnErrorWithTheSentenceThatWasLeft) {
  FakeModelHost model(kParams, kUnits);
  auto strategy = booster("stub_recorder").boost(model).value();
  const auto closed = strategy->after_backward(5);
  ASSERT_FALSE(closed.ok());
  EXPECT_EQ(closed.error().kind, ErrorKind::interrupted);
  EXPECT_EQ(closed.error().message, "the stub was interrupted");
}

TEST(Booster, KeepsKindAndSentenceOfAFailedCreate) {
  FakeModelHost model(kParams, kUnits);
  const Error error = refusal("stub_create_fails", model);
  EXPECT_EQ(error.kind, ErrorKind::does_not_fit);
  EXPECT_EQ(error.message, "device tier: 96 MiB needed, 40 MiB there; raise --device-budget to 96MiB");
}

TEST(Booster, SaysSoWhereAPluginGivesNoReason) {
  FakeModelHost model(kParams, kUnits);
  const Error error = refusal("stub_create_silent", model);
  EXPECT_EQ(error.kind, ErrorKind::io);
  EXPECT_EQ(error.message, "plugin stub_create_silent: create failed with status 4 and gave no reason");
}

TEST(Booster, RefusesSuccessWithoutAStrategy) {
  FakeModelHost model(kParams, kUnits);
  const Error error = refusal("stub_no_strategy", model);
  EXPECT_EQ(error.kind, ErrorKind::plugin);
  EXPECT_EQ(error.message,
            "plugin stub_no_strategy created no strategy and reported no error; the plugin must be corrected");
}

TEST(Booster, RefusesAStrategyThatLacksARequiredFunctionAndDestroysIt) {
  FakeModelHost model(kParams, kUnits);
  const Error error = refusal("stub_lacks_step", model);
  EXPECT_EQ(error.kind, ErrorKind::plugin);
  EXPECT_EQ(error.message,
            "plugin stub_lacks_step has a strategy without the required function step; the plugin must be corrected");
  EXPECT_EQ(model.calls(), Calls({"destroy"}));
}

TEST(Booster, RefusesADeviceThatThePluginDoesNotTrainOn) {
  FakeModelHost on_cuda(kParams, kUnits, {kDLCUDA, 1});
  const Error error = refusal("minimal_c", on_cuda);
  EXPECT_EQ(error.kind, ErrorKind::usage);
  EXPECT_EQ(error.message,
            "plugin minimal_c trains on cpu, the model is on cuda:1; choose another --device or another plugin");
  EXPECT_TRUE(on_cuda.calls().empty());
  FakeModelHost on_cpu(kParams, kUnits);
  EXPECT_EQ(refusal("stub_cuda_only", on_cpu).message,
            "plugin stub_cuda_only trains on cuda, the model is on cpu; choose another --device or another plugin");
}

TEST(Booster, DestroysAStrategyThatCannotAttach) {
  FakeModelHost model(kParams, kUnits);
  model.fail_on("bind b", CASTOR_DOES_NOT_FIT);
  const Error error = refusal("minimal_c", model);
  EXPECT_EQ(error.kind, ErrorKind::does_not_fit);
  EXPECT_EQ(error.message, "bind b was told to fail");
  EXPECT_EQ(model.bound(0), nullptr);
}

TEST(Booster, HooksThatAPluginLeavesOutDoNothing) {
  FakeModelHost model(kParams, kUnits);
  auto strategy = booster("minimal_c").boost(model).value();
  const std::size_t n_before = model.calls().size();
  EXPECT_TRUE(strategy->before_forward(0).ok());
  EXPECT_TRUE(strategy->after_forward(0).ok());
  EXPECT_TRUE(strategy->before_backward(0).ok());
  EXPECT_TRUE(strategy->after_backward(0).ok());
  EXPECT_TRUE(strategy->end_of_backward().ok());
  EXPECT_EQ(model.calls().size(), n_before);
}

// Of version 1.0, with nothing in memory behind it.
TEST(Booster, APluginOfAnOlderMinorTrainsAndIsAskedForNothingNewer) {
  FakeModelHost model(kParams, kUnits);
  auto strategy = booster("stub_older_minor").boost(model).value();
  EXPECT_TRUE(strategy->before_forward(0).ok());
  EXPECT_FALSE(strategy->keep("", 1).value().has_value()) << "came with 1.2";
  castor_step_args args{};
  args.struct_size = sizeof args;
  args.optimizer = CASTOR_ADAMW, args.lr = 0.1, args.eps = 1e-8, args.loss_scale = 1;
  EXPECT_TRUE(strategy->announce_step(args).ok()) << "came with 1.3";
  EXPECT_TRUE(strategy->gradient(1, model.make_gradient(1, {0})).ok());
  EXPECT_EQ(model.n_live_gradients(), 0);
  EXPECT_EQ(strategy->step(args).value().grad_norm, 3);
  float master = 0;
  strategy->read_master(0, &master).value();
  EXPECT_EQ(master, 7);
  EXPECT_EQ(strategy->stats().value().h2d_bytes, 11u);
  EXPECT_EQ(strategy->stats().value().bound_seconds, 0) << "came with 1.8";
  castor_param_state state{};
  const auto read = strategy->read_state(state);
  ASSERT_FALSE(read.ok()) << "came with 1.4";
  EXPECT_EQ(read.error().message,
            "plugin stub_older_minor cannot save its states; leave --checkpoint and --resume out or take another "
            "plugin");
  const auto committed = strategy->commit(1, "");
  ASSERT_FALSE(committed.ok()) << "came with 1.7";
  EXPECT_EQ(committed.error().message,
            "plugin stub_older_minor cannot commit its states; save them with --checkpoint");
  const auto abandoned = strategy->abandon_step();
  ASSERT_FALSE(abandoned.ok()) << "came with 1.12";
  EXPECT_EQ(abandoned.error().message, "plugin stub_older_minor cannot abandon a step; start again");
}

TEST(Booster, ATraceThatIsNotKeptIsAUsageError) {
  FakeModelHost model(kParams, kUnits);
  auto strategy = booster("minimal_c").boost(model).value();
  const auto written = strategy->write_trace("/tmp/t.json");
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().kind, ErrorKind::usage);
  EXPECT_EQ(written.error().message, "plugin minimal_c keeps no trace; leave --trace out or take another plugin");
}

}  // namespace
}  // namespace castor

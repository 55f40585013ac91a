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
  args.struct_size = sizeof args;
  args.lr = 0.25, args.loss_scale = 1;
  EXPECT_TRUE(strategy->begin_micro_batch({sizeof(castor_micro_batch), 1, 2, CASTOR_MICRO_LAST}).ok());
  EXPECT_TRUE(strategy->before_forward(1).ok());
  EXPECT_TRUE(strategy->after_forward(2).ok());
  EXPECT_TRUE(strategy->before_backward(3).ok());
  EXPECT_TRUE(strategy->gradient(1, model.make_gradient(1, {0})).ok());
  EXPECT_TRUE(strategy->end_of_backward().ok());
  EXPECT_TRUE(strategy->discard_gradients().ok());
  const auto stepped = strategy->step(args).value();
  EXPECT_TRUE(strategy->read_master(0, &master).ok());
  const auto stats = strategy->stats().value();
  EXPECT_TRUE(strategy->write_trace("/tmp/t.json").ok());
  strategy.reset();
  EXPECT_EQ(
      Calls(model.calls().begin() + n_before, model.calls().end()),
      Calls({"begin_micro_batch 1 of 2", "before_forward 1", "after_forward 2", "before_backward 3", "gradient 1",
             "end_of_backward", "discard_gradients", "begin_step lr=0.25", "step_result 9", "read_masters 0",
             "stats of " + std::to_string(sizeof(castor_stats)) + " bytes", "write_trace /tmp/t.json", "destroy"}));
  EXPECT_EQ(model.n_live_gradients(), 0);
  EXPECT_EQ(stepped.skipped, 1);
  EXPECT_EQ(stepped.grad_norm, 2.5);
  EXPECT_EQ(master, 7);
  EXPECT_EQ(stats.h2d_bytes, 11u);
}

castor_step_args with_max_value() {
  castor_step_args args{};
  args.struct_size = sizeof args;
  args.max_value = 0.5;
  return args;
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
  EXPECT_EQ(error.message, "device tier: 96 MiB needed, 40 MiB there; raise device_budget to 96MiB");
  EXPECT_EQ(error.option, "device_budget");
  ASSERT_TRUE(error.shortage);
  EXPECT_EQ(error.shortage->tier, Tier::device);
  EXPECT_EQ(error.shortage->needed_bytes, 96u << 20);
  EXPECT_EQ(error.shortage->available_bytes, 40u << 20);
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
  EXPECT_EQ(
      error.message,
      "plugin stub_lacks_step has a strategy without the required function begin_step; the plugin must be corrected");
  EXPECT_EQ(model.calls(), Calls({"destroy"}));
}

TEST(Booster, RefusesAFunctionWithoutTheOneThatBelongsToIt) {
  FakeModelHost model(kParams, kUnits);
  EXPECT_EQ(refusal("stub_lacks_wait", model).message,
            "plugin stub_lacks_wait has a strategy with commit_begin and without commit_wait; the plugin must be "
            "corrected");
}

TEST(Booster, RefusesADeviceThatThePluginDoesNotTrainOn) {
  FakeModelHost on_cuda(kParams, kUnits, {kDLCUDA, 1});
  const Error error = refusal("minimal_c", on_cuda);
  EXPECT_EQ(error.kind, ErrorKind::usage);
  EXPECT_EQ(error.message,
            "plugin minimal_c trains on cpu, the model is on cuda:1; choose another `device` or another plugin");
  EXPECT_TRUE(on_cuda.calls().empty());
  FakeModelHost on_cpu(kParams, kUnits);
  const Error of_cpu = refusal("stub_cuda_only", on_cpu);
  EXPECT_EQ(of_cpu.option, "device");
  EXPECT_EQ(of_cpu.message,
            "plugin stub_cuda_only trains on cuda, the model is on cpu; choose another `device` or another plugin");
}

TEST(Booster, DestroysAStrategyThatCannotAttach) {
  FakeModelHost model(kParams, kUnits);
  model.fail_on("bind b", ErrorKind::does_not_fit);
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

TEST(Booster, ATableThatEndsEarlyIsReadNoFurther) {
  FakeModelHost model(kParams, kUnits);
  auto strategy = booster("stub_short_table").boost(model).value();
  EXPECT_TRUE(strategy->before_forward(0).ok());
  EXPECT_EQ(strategy->activations().keep("", 1).value(), 0u);
  EXPECT_TRUE(strategy->after_forward(0).ok());
  castor_step_args args{};
  args.struct_size = sizeof args;
  args.optimizer = CASTOR_ADAMW, args.lr = 0.1, args.eps = 1e-8, args.loss_scale = 1;
  EXPECT_TRUE(strategy->announce_step(args).ok());
  EXPECT_TRUE(strategy->gradient(1, model.make_gradient(1, {0})).ok());
  EXPECT_EQ(model.n_live_gradients(), 0);
  EXPECT_TRUE(strategy->end_of_backward().ok());
  EXPECT_EQ(strategy->step(args).value().grad_norm, 3);
  float master = 0;
  strategy->read_master(0, &master).value();
  EXPECT_EQ(master, 7);
  EXPECT_EQ(strategy->stats().value().h2d_bytes, 11u);
  const auto written = strategy->write_trace("/tmp/t.json");
  ASSERT_FALSE(written.ok()) << "lies behind the end of the table";
  EXPECT_EQ(written.error().message, "plugin stub_short_table cannot write a trace");
}

TEST(Booster, WhatAPluginCannotDoIsAUsageErrorThatSaysSo) {
  FakeModelHost model(kParams, kUnits);
  auto strategy = booster("minimal_c").boost(model).value();
  const auto refused = [](const auto& result) {
    if (result.ok()) return std::string("it was done");
    EXPECT_EQ(result.error().kind, ErrorKind::usage);
    return result.error().message;
  };
  castor_param_state state{};
  const castor_access access = {sizeof access, CASTOR_READ, 0, nullptr};
  castor_values values{};
  const std::string cannot = "plugin minimal_c cannot ";
  EXPECT_EQ(refused(strategy->write_trace("/tmp/t.json")), cannot + "write a trace");
  EXPECT_EQ(refused(strategy->discard_gradients()), cannot + "drop gradients; start again");
  EXPECT_EQ(refused(strategy->measure_norm()), cannot + "measure the norm of the gradients before the step");
  EXPECT_EQ(refused(strategy->values().read_state(state)), cannot + "save its states");
  EXPECT_EQ(refused(strategy->values().read_gradient(values)), cannot + "read gradients");
  EXPECT_EQ(refused(strategy->values().set_trainable(0, 0)), cannot + "freeze parameters later on");
  EXPECT_EQ(refused(strategy->values().acquire(access)), cannot + "lend weights outside a unit");
  EXPECT_EQ(refused(strategy->commit(1, "")), cannot + "commit its states");
  EXPECT_EQ(strategy->reclaim(1).value(), 0u) << "has nothing to give back";
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
// The order of the calls into a strategy: which function may be called in which state, and the sentences of refusals.
#include <castor/plugins/booster.h>

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <vector>

#include "fake_model_host.h"
#include "sdk/call_order.h"
#include "sdk/call_rows.h"

namespace castor {
namespace {

using sdk::CallOrder;
using sdk::CallRow;
using test::FakeModelHost;

std::vector<CallRow> strategy_rows() {
  std::vector<CallRow> rows;
  for (const auto list : {std::span<const CallRow>(sdk::kStepRows), std::span<const CallRow>(sdk::kValueRows),
                          std::span<const CallRow>(sdk::kCommitRows), std::span<const CallRow>(sdk::kActivationRows)})
    rows.insert(rows.end(), list.begin(), list.end());
  return rows;
}

/// Makes the calls that lead to `state`.
void lead(CallOrder& order, CallState state) {
  using Path = std::vector<CallEffect>;
  static const std::map<CallState, Path> paths = {
      {CallState::created, {}},
      {CallState::attached, {then::attaches}},
      {CallState::between, {then::attaches, then::begins_backward, then::ends_backward, then::steps}},
      {CallState::announced, {then::attaches, then::enters_forward, then::leaves_forward, then::announces}},
      {CallState::forward, {then::attaches, then::enters_forward}},
      {CallState::backward, {then::attaches, then::announces, then::begins_backward}},
      {CallState::gathered, {then::attaches, then::begins_backward, then::ends_backward}},
      {CallState::complete, {then::attaches, then::announces, then::begins_backward, then::ends_backward}},
      {CallState::lent, {then::attaches, then::steps, then::lends}},
  };
  for (const CallEffect effect : paths.at(state)) order.made(effect);
  EXPECT_EQ(order.state(), state);
}

/// By function: the states in which it may be called, in the order of CallState.
const std::map<std::string_view, const char*> kAllowed = {
    // created, attached, between, announced, forward, backward, gathered, complete, lent
    {"attach", "x........"},          {"begin_micro_batch", ".xx...xx."},
    {"before_forward", ".xxxxxxx."},  {"after_forward", ".xxxxxxxx"},
    {"before_backward", ".xxxxxxx."}, {"after_backward", ".xxxxxxxx"},
    {"gradient", ".xxxxxxx."},        {"end_of_backward", ".xxxxxxx."},
    {"announce_step", ".xxx..xx."},   {"begin_step", ".xx...xx."},
    {"step_result", ".xxxxxxxx"},     {"discard_gradients", ".xxxxxxx."},
    {"measure_norm", "......xx."},    {"reclaim", ".xxxxxxxx"},
    {"run_step", ".xxx....."},        {"stats", "xxxxxxxxx"},
    {"write_trace", "xxxxxxxxx"},     {"settle", ".xx......"},
    {"owned_ranges", ".xxxxxxxx"},    {"read_masters", ".xx...x.."},
    {"read_state", ".xx...x.."},      {"write_state", ".xx......"},
    {"read_gradient", "......xx."},   {"write_gradient", "......xx."},
    {"set_trainable", ".xxx..xxx"},   {"acquire", ".xx...x.x"},
    {"release", "........x"},         {"commit_begin", ".xx...x.."},
    {"commit_wait", ".xx...x.."},     {"last_commit", ".xx...x.."},
    {"restore", ".x......."},         {"keep", ".xxxxxxxx"},
    {"recall", ".xxxxxxxx"},          {"forget", ".xxxxxxxx"},
};

/// The sentences of refusals behind the function's name, by state; those with two belong to several functions.
std::string sentence(std::string_view function, CallState state) {
  const bool needs_gradients =
      function == "measure_norm" || function == "read_gradient" || function == "write_gradient";
  const bool once = function == "attach";
  const std::string at_rest = once                    ? "it is called once"
                              : needs_gradients       ? "end_of_backward must come first"
                              : function == "release" ? "acquire must come first"
                                                      : "it is called before the first step alone";
  switch (state) {
    case CallState::created: return " was called before attach; attach must come first";
    case CallState::attached: return " was called before the first step; " + at_rest;
    case CallState::between: return " was called between two steps; " + at_rest;
    case CallState::announced:
      return " was called after announce_step; " +
             (once ? at_rest : "the backward pass that was announced must come first");
    case CallState::forward:
      return " was called within a unit's forward pass; " + (once ? at_rest : "after_forward must come first");
    case CallState::backward:
      return " was called in a backward pass; " + (once ? at_rest : "end_of_backward must come first");
    case CallState::gathered:
      return " was called between backward and step; " +
             (once ? at_rest : "begin_step or discard_gradients must come first (step or zero_grad)");
    case CallState::complete:
      return " was called after the last backward pass of the step; " +
             (once ? at_rest : "begin_step or discard_gradients must come first (step or zero_grad)");
    case CallState::lent:
      return " was called while weights are lent; " +
             (once ? at_rest : "release must come first (the end of castor.gathered)");
  }
  return "";
}

TEST(CallOrder, AdmitsEachFunctionInItsStatesAndRefusesItInOthersWithASentence) {
  const std::vector<CallRow> rows = strategy_rows();
  EXPECT_EQ(rows.size(), kAllowed.size());
  for (const CallRow& row : rows) {
    ASSERT_TRUE(kAllowed.contains(row.name)) << row.name;
    for (std::uint32_t i = 0; i < kNCallStates; ++i) {
      const auto state = static_cast<CallState>(i);
      CallOrder order;
      lead(order, state);
      const auto admitted = order.admit(row.need, row.name.data());
      const std::string text = std::string(row.name) + " in state " + std::to_string(i);
      EXPECT_EQ(admitted.ok(), kAllowed.at(row.name)[i] == 'x') << text;
      if (admitted.ok()) continue;
      EXPECT_EQ(admitted.error().kind, ErrorKind::usage) << text;
      EXPECT_EQ(admitted.error().message, std::string(row.name) + sentence(row.name, state));
      EXPECT_EQ(order.state(), state) << "a refused call changes nothing";
    }
  }
}

struct Walk {
  const char* what;
  std::vector<CallEffect> calls;
  CallState end;
};

TEST(CallOrder, StatesFollowTheCalls) {
  using enum CallEffect;
  const Walk walks[] = {
      {"recomputation in backward", {attaches, begins_backward, enters_forward}, CallState::backward},
      {"evaluation between backward and step",
       {attaches, begins_backward, ends_backward, enters_forward, leaves_forward},
       CallState::gathered},
      {"evaluation after an announcement", {attaches, announces, enters_forward, leaves_forward}, CallState::announced},
      {"a forward pass alone", {attaches, enters_forward, leaves_forward}, CallState::attached},
      {"a unit within a unit", {attaches, enters_forward, enters_forward, leaves_forward}, CallState::attached},
      {"the second micro-batch", {attaches, begins_backward, ends_backward, begins_backward}, CallState::backward},
      {"a dropped first step", {attaches, enters_forward, leaves_forward, begins_backward, drops}, CallState::attached},
      {"a dropped later step", {attaches, steps, begins_backward, ends_backward, drops}, CallState::between},
      {"a dropped forward pass", {attaches, steps, enters_forward, drops}, CallState::between},
      {"a dropped announcement", {attaches, steps, announces, drops}, CallState::between},
      {"one of two releases", {attaches, lends, lends, takes_back}, CallState::lent},
      {"backward after a forward pass that broke off",
       {attaches, enters_forward, begins_backward, ends_backward},
       CallState::gathered},
      {"weights lent between two micro-batches",
       {attaches, begins_backward, ends_backward, lends, takes_back},
       CallState::gathered},
      {"the step after one that was announced",
       {attaches, announces, begins_backward, ends_backward, steps, begins_backward, ends_backward},
       CallState::gathered},
      {"the next step after an announced one that was dropped",
       {attaches, announces, begins_backward, ends_backward, drops, begins_backward, ends_backward},
       CallState::gathered},
      {"both releases", {attaches, lends, lends, takes_back, takes_back}, CallState::attached},
  };
  for (const Walk& walk : walks) {
    CallOrder order;
    for (const CallEffect effect : walk.calls) order.made(effect);
    EXPECT_EQ(order.state(), walk.end) << walk.what;
  }
}

TEST(CallOrder, OneThreadAtATimeMakesCalls) {
  CallOrder order;
  const auto elsewhere = [&order] {
    std::string refused;
    std::thread([&] {
      if (const auto turn = order.begin_turn("gradient"); !turn.ok()) refused = turn.error().message;
    }).join();
    return refused;
  };
  {
    const auto turn = order.begin_turn("begin_step").value();
    const auto within = order.begin_turn("stats").value();
    EXPECT_EQ(
        elsewhere(),
        "gradient was called while another thread is in a call of the same model; calls come from one thread at a "
        "time");
  }
  EXPECT_EQ(elsewhere(), "");
  EXPECT_TRUE(order.begin_turn("stats").ok());
}

TEST(CallOrder, ARefusedCallDoesNotReachThePlugin) {
  FakeModelHost model({{"w", {3}, test::kFp32, {1, 2, 3}}}, {{"linear", {0}}});
  auto strategy =
      Booster::make(PluginLoader("", {STUB_DIR}).load("stub_recorder").value(), {}).value().boost(model).value();
  const std::size_t n_calls = model.calls().size();
  const auto twice = strategy->attach();
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().message, "attach was called before the first step; it is called once");
  strategy->before_forward(0).value();
  float master[3] = {};
  const auto within = strategy->read_master(0, master);
  ASSERT_FALSE(within.ok());
  EXPECT_EQ(within.error().message,
            "read_masters was called within a unit's forward pass; after_forward must come first");
  EXPECT_EQ(model.calls().size(), n_calls + 1);
  strategy->after_forward(0).value();
  EXPECT_TRUE(strategy->read_master(0, master).ok());
}

TEST(CallOrder, AGradientOutOfOrderIsGivenBack) {
  FakeModelHost model({{"w", {3}, test::kFp32, {1, 2, 3}}}, {{"linear", {0}}});
  auto strategy =
      Booster::make(PluginLoader("", {STUB_DIR}).load("stub_recorder").value(), {}).value().boost(model).value();
  const castor_access none = {sizeof none, CASTOR_READ, 0, nullptr};
  strategy->values().acquire(none).value();
  const auto refused = strategy->gradient(0, model.make_gradient(0, {0, 0, 0}));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "gradient was called while weights are lent; release must come first (the end of castor.gathered)");
  EXPECT_EQ(model.n_live_gradients(), 0);
}

/// A call that failed has not happened: the model is in the state before it.
TEST(CallOrder, AFailedCallChangesNoState) {
  FakeModelHost model({{"w", {3}, test::kFp32, {1, 2, 3}}}, {{"linear", {0}}});
  auto strategy =
      Booster::make(PluginLoader("", {STUB_DIR}).load("stub_recorder").value(), {}).value().boost(model).value();
  castor_step_args args{};
  args.struct_size = sizeof args;
  args.max_value = args.max_norm = 1;  // refused
  strategy->end_of_backward().value();
  EXPECT_FALSE(strategy->begin_step(args).ok());
  const auto refused = strategy->attach();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "attach was called between backward and step; it is called once");
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "step_machine.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace castor {
namespace {

using State = StepState;
using Happens = StepEvent;

constexpr std::array kStepStates = {State::idle, State::announced, State::updating, State::waiting, State::poisoned};
constexpr std::array kStepEvents = {Happens::announce, Happens::update, Happens::end,  Happens::defer,
                                    Happens::catch_up, Happens::fail,   Happens::lose, Happens::abandon};
static_assert(kStepStates.size() == kNStepStates && kStepEvents.size() == kNStepEvents);

/// The legal transitions, written down apart from the table.
const std::map<std::pair<State, Happens>, State> kLegalSteps = {
    {{State::idle, Happens::announce}, State::announced},
    {{State::idle, Happens::update}, State::updating},
    {{State::idle, Happens::end}, State::idle},
    {{State::idle, Happens::defer}, State::waiting},
    {{State::idle, Happens::fail}, State::idle},
    {{State::idle, Happens::abandon}, State::idle},
    {{State::announced, Happens::announce}, State::announced},
    {{State::announced, Happens::update}, State::updating},
    {{State::announced, Happens::end}, State::idle},
    {{State::announced, Happens::defer}, State::waiting},
    {{State::announced, Happens::fail}, State::announced},
    {{State::announced, Happens::abandon}, State::idle},
    {{State::updating, Happens::update}, State::updating},
    {{State::updating, Happens::end}, State::idle},
    {{State::updating, Happens::defer}, State::waiting},
    {{State::updating, Happens::fail}, State::poisoned},
    {{State::waiting, Happens::update}, State::waiting},
    {{State::waiting, Happens::catch_up}, State::idle},
    {{State::waiting, Happens::fail}, State::poisoned},
    {{State::waiting, Happens::abandon}, State::waiting},
    {{State::idle, Happens::lose}, State::poisoned},
    {{State::announced, Happens::lose}, State::poisoned},
    {{State::updating, Happens::lose}, State::poisoned},
    {{State::waiting, Happens::lose}, State::poisoned},
    {{State::poisoned, Happens::fail}, State::poisoned},
    {{State::poisoned, Happens::lose}, State::poisoned},
};

/// A machine that has reached `state` by legal events.
StepMachine machine_in(State state) {
  StepMachine machine;
  const std::map<State, std::vector<Happens>> ways = {
      {State::idle, {}},
      {State::announced, {Happens::announce}},
      {State::updating, {Happens::announce, Happens::update}},
      {State::waiting, {Happens::announce, Happens::defer}},
      {State::poisoned, {Happens::update, Happens::fail}},
  };
  for (const Happens event : ways.at(state)) machine.take(event).value();
  EXPECT_TRUE(machine.in(state));
  return machine;
}

std::string words(State state, Happens event) {
  return "state " + std::to_string(static_cast<int>(state)) + ", event " + std::to_string(static_cast<int>(event));
}

TEST(StepMachine, TakesEveryLegalTransition) {
  for (const auto& [pair, next] : kLegalSteps) {
    StepMachine machine = machine_in(pair.first);
    EXPECT_TRUE(machine.take(pair.second).ok()) << words(pair.first, pair.second);
    EXPECT_TRUE(machine.in(next)) << words(pair.first, pair.second);
  }
}

TEST(StepMachine, RefusesEveryOtherWithASentence) {
  for (const State state : kStepStates)
    for (const Happens event : kStepEvents) {
      if (kLegalSteps.contains({state, event})) continue;
      StepMachine machine = machine_in(state);
      const auto refused = machine.take(event);
      ASSERT_FALSE(refused.ok()) << words(state, event);
      EXPECT_EQ(refused.error().kind, ErrorKind::failed) << words(state, event);
      EXPECT_GT(refused.error().message.size(), 40u) << words(state, event) << ": " << refused.error().message;
      const bool half_done = state == State::updating || state == State::poisoned;
      EXPECT_EQ(machine.in(State::poisoned), half_done)
          << words(state, event) << ": a step that is half done cannot go on";
      if (!half_done) {
        EXPECT_TRUE(machine.in(state)) << words(state, event);
      }
    }
}

TEST(StepMachine, SaysWhyInTheCallersTerms) {
  const auto message = [](State state, Happens event) { return machine_in(state).take(event).error().message; };
  EXPECT_EQ(message(State::updating, Happens::announce),
            "a step was announced and some parameters were updated early, but it was never ended, so the model is "
            "between two steps; start again from a checkpoint");
  EXPECT_EQ(message(State::updating, Happens::abandon),
            "the step was to be abandoned after some parameters were updated, so the model is between two steps; start "
            "again from a checkpoint");
  EXPECT_EQ(message(State::waiting, Happens::announce),
            "updates of the step before are still waiting; they must be made first");
  EXPECT_EQ(message(State::idle, Happens::catch_up), "no update was waiting for the next use of its chunk");
  EXPECT_EQ(message(State::poisoned, Happens::update),
            "an earlier step failed after some parameters were updated, so the model is between two steps; start "
            "again from a checkpoint");
}

TEST(StepMachine, AFailureBeforeTheFirstUpdateLeavesTheModelWhole) {
  StepMachine machine = machine_in(State::announced);
  machine.fail();
  EXPECT_TRUE(machine.whole().ok());
  machine.take(Happens::update).value();
  machine.fail();
  EXPECT_FALSE(machine.whole().ok());
}

TEST(StepMachine, FailAndLoseAreTheirEvents) {
  for (const State state : kStepStates) {
    StepMachine failed = machine_in(state), lost = machine_in(state);
    failed.fail();
    lost.lose();
    EXPECT_TRUE(failed.in(kLegalSteps.at({state, Happens::fail})));
    EXPECT_TRUE(lost.in(State::poisoned));
  }
}

}  // namespace
}  // namespace castor

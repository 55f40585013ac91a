// SPDX-License-Identifier: Apache-2.0
#include <castor/training/step_order.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace castor {
namespace {

using Call = StepOrder::Call;

/// The order after `calls`, all of which are in order.
StepOrder after(const std::vector<Call>& calls) {
  StepOrder order;
  for (const Call call : calls) {
    EXPECT_TRUE(order.check(call).ok());
    order.done(call);
  }
  return order;
}

std::string refusal(const StepOrder& order, Call call) {
  const auto checked = order.check(call);
  EXPECT_FALSE(checked.ok());
  if (checked.ok()) return "";
  EXPECT_EQ(checked.error().kind, ErrorKind::usage);
  return checked.error().message;
}

TEST(StepOrder, StepsAndSavesTakeTurns) {
  after({Call::last_backward, Call::step, Call::save, Call::save, Call::backward, Call::backward, Call::last_backward,
         Call::step, Call::backward, Call::step, Call::save});
}

TEST(StepOrder, AResumedRunCanBeSavedAtOnce) { after({Call::resume, Call::save, Call::last_backward, Call::step}); }

TEST(StepOrder, AStepNeedsGradients) {
  const std::string wanted = "step() without gradients: call backward() first";
  EXPECT_EQ(refusal(StepOrder(), Call::step), wanted);
  EXPECT_EQ(refusal(after({Call::last_backward, Call::step}), Call::step), wanted);
}

TEST(StepOrder, GradientsAreThereFromBackwardToStep) {
  for (const StepOrder& order : {StepOrder(), after({Call::last_backward, Call::step}), after({Call::resume})})
    for (const Call call : {Call::read_gradient, Call::write_gradient, Call::clip})
      EXPECT_EQ(refusal(order, call), "there are no gradients, which are there from backward() to step()");
  after({Call::backward, Call::read_gradient, Call::write_gradient, Call::backward, Call::clip, Call::step});
  after({Call::last_backward, Call::write_gradient, Call::read_gradient, Call::clip, Call::step});
}

TEST(StepOrder, ClippedGradientsStayAsTheyAre) {
  for (const Call last : {Call::backward, Call::last_backward}) {
    StepOrder order = after({last, Call::clip, Call::read_gradient, Call::forward});
    EXPECT_TRUE(order.is_under_way() && order.has_all_gradients());
    for (const Call call : {Call::backward, Call::last_backward, Call::write_gradient, Call::clip})
      EXPECT_EQ(refusal(order, call),
                "the gradients of this step were clipped, after which they stay as they are; clip after the last "
                "backward pass and after set_grad, then call step()");
    for (const Call call : {Call::save, Call::read}) {
      EXPECT_TRUE(order.check(call).ok());  // no update has begun: an announced step is not clipped
      order.done(call);
    }
    EXPECT_TRUE(order.has_all_gradients());
    order.done(Call::step);
    EXPECT_FALSE(order.is_under_way());
  }
}

/// Until the last backward pass begins, in which updates may begin too.
TEST(StepOrder, ValuesOfTheLastStepAreReadAndSavedBetweenBackwardPasses) {
  after({Call::backward, Call::save, Call::read, Call::backward, Call::save, Call::last_backward, Call::step});
  const std::string wanted = "a step is under way; end it with step(), or drop it with zero_grad()";
  for (const Call call : {Call::save, Call::read, Call::write})
    EXPECT_EQ(refusal(after({Call::last_backward}), call), wanted);
  for (const StepOrder& order : {after({Call::backward}), after({Call::backward, Call::clip})})
    EXPECT_EQ(refusal(order, Call::write), wanted);
}

TEST(StepOrder, ARunIsResumedBeforeTheFirstStepOrBetweenTwo) {
  after({Call::resume, Call::resume, Call::last_backward, Call::step, Call::resume, Call::last_backward, Call::step});
  for (const StepOrder& order : {after({Call::backward}), after({Call::last_backward})})
    EXPECT_EQ(refusal(order, Call::resume), "a step is under way; end it with step(), or drop it with zero_grad()");
}

TEST(StepOrder, AfterTheLastBackwardPassComesTheStep) {
  for (const Call call : {Call::backward, Call::last_backward})
    EXPECT_EQ(refusal(after({Call::last_backward}), call),
              "the step has had its last backward pass; call step(), or raise micro_batches");
}

TEST(StepOrder, AFailedStepIsDroppedFirst) {
  StepOrder order = after({Call::last_backward, Call::step, Call::backward});
  order.failed();
  for (const Call call :
       {Call::forward, Call::backward, Call::last_backward, Call::step, Call::save, Call::read, Call::write})
    EXPECT_EQ(refusal(order, call), "a call of this step has failed; drop the step with zero_grad() and begin it anew");
  order.abandoned();
  EXPECT_TRUE(order.check(Call::last_backward).ok());
  EXPECT_TRUE(order.check(Call::save).ok());
}

TEST(StepOrder, AFirstStepThatIsDroppedLeavesWhatWasThere) {
  StepOrder order = after({Call::save, Call::backward});
  order.failed();
  order.abandoned();
  EXPECT_EQ(order.state(), StepOrder::State::fresh);
  EXPECT_TRUE(order.check(Call::save).ok());
  EXPECT_TRUE(order.check(Call::resume).ok());
}

TEST(StepOrder, ARunThatWasResumedInPartIsResumedAgainFirst) {
  StepOrder order;
  order.torn();
  for (const Call call :
       {Call::forward, Call::backward, Call::last_backward, Call::step, Call::save, Call::read, Call::write})
    EXPECT_EQ(refusal(order, call), "the run was resumed in part only; resume it from a whole checkpoint");
  EXPECT_TRUE(order.check(Call::resume).ok());
  order.done(Call::resume);
  EXPECT_EQ(order.state(), StepOrder::State::between);
}

TEST(StepOrder, WhatIsRefusedCannotBeDone) {
  StepOrder order;
  EXPECT_THROW(order.done(Call::step), ContractViolation);
  EXPECT_EQ(order.state(), StepOrder::State::fresh);
}

}  // namespace
}  // namespace castor

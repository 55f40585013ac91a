// SPDX-License-Identifier: Apache-2.0
#include "step_recorder.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace castor {
namespace {

using Kind = StepCall::Kind;
using Calls = std::vector<std::pair<Kind, std::uint32_t>>;

class StepRecorderTest : public ::testing::Test {
 protected:
  StepRecorderTest() { recorder_.start(); }

  /// A forward pass of all units, which `starts` the step or goes on with it.
  void forward(bool starts = true) {
    for (const std::uint32_t unit : {0, 1}) {
      recorder_.enter(Kind::forward, unit, starts && unit == 0);
      recorder_.add(Kind::end_forward, unit);
    }
  }
  Calls recorded() {
    recorder_.end_step({});
    Calls calls;
    for (const StepCall& call : recorder_.last().script) calls.emplace_back(call.kind, call.id);
    return calls;
  }

  static inline const Calls kForward = {
      {Kind::forward, 0}, {Kind::end_forward, 0}, {Kind::forward, 1}, {Kind::end_forward, 1}};
  StepRecorder recorder_;
};

TEST_F(StepRecorderTest, AnEvaluationBeforeTheStepIsLeftOut) {
  forward();
  recorder_.keep(ChunkId{9}, 64);
  forward();
  EXPECT_EQ(recorded(), kForward);
  EXPECT_TRUE(recorder_.last().activations.empty());
}

TEST_F(StepRecorderTest, AMicroBatchAfterABackwardPassBelongsToTheStep) {
  forward();
  recorder_.enter(Kind::backward, 1, false);
  forward(/*starts=*/false);
  EXPECT_EQ(recorded().size(), 9u);
}

TEST_F(StepRecorderTest, AnAbandonedStepIsLeftOut) {
  recorder_.add(Kind::announce);
  recorder_.enter(Kind::backward, 1, false);
  recorder_.keep(ChunkId{9}, 64);
  recorder_.break_off();
  forward();
  forward();
  recorder_.about(Kind::recall, ChunkId{9});
  EXPECT_EQ(recorded(), kForward);
  EXPECT_TRUE(recorder_.last().activations.empty());
}

TEST_F(StepRecorderTest, AStepThatIsAnnouncedFirstKeepsThatCall) {
  recorder_.add(Kind::announce);
  forward();
  Calls expected = {{Kind::announce, 0}};
  expected.insert(expected.end(), kForward.begin(), kForward.end());
  EXPECT_EQ(recorded(), expected);
}

TEST_F(StepRecorderTest, ActivationsAreNumberedByTheStep) {
  forward();
  recorder_.keep(ChunkId{30}, 64);
  recorder_.keep(ChunkId{20}, 32);
  recorder_.about(Kind::recall, ChunkId{20});
  recorder_.about(Kind::forget, ChunkId{7});  // kept before the step
  Calls expected = kForward;
  expected.insert(expected.end(), {{Kind::keep, 0}, {Kind::keep, 1}, {Kind::recall, 1}});
  EXPECT_EQ(recorded(), expected);
  EXPECT_EQ(recorder_.last().activations, (std::vector<ChunkId>{ChunkId{30}, ChunkId{20}}));
}

TEST_F(StepRecorderTest, StoppedItRecordsNothing) {
  recorder_.stop();
  forward();
  EXPECT_TRUE(recorded().empty());
}

}  // namespace
}  // namespace castor

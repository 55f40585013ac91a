// SPDX-License-Identifier: Apache-2.0
#include "plan_stage.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace castor {
namespace {

using enum PlanStage;
using enum PlanEvent;

constexpr PlanStage kStages[] = {recording, changed, due, refused, planned, replan, replanning};
constexpr PlanEvent kEvents[] = {repeated, differed, times_known, made,    failed,
                                 given,    forgotten, begun,      outdated};

/// Every legal pair of stage and event, written independently of the table.
const std::map<std::pair<PlanStage, PlanEvent>, PlanStage> kLegal = {
    {{recording, repeated}, due},   {{recording, differed}, due},      {{recording, given}, due},
    {{changed, repeated}, due},     {{changed, differed}, changed},
    {{due, repeated}, due},         {{due, differed}, changed},        {{due, made}, planned},
    {{due, failed}, refused},
    {{refused, repeated}, refused}, {{refused, differed}, changed},
    {{planned, repeated}, planned}, {{planned, differed}, changed},    {{planned, times_known}, replan},
    {{replan, repeated}, replan},   {{replan, differed}, changed},     {{replan, times_known}, replan},
    {{replan, begun}, replanning},
    {{replanning, repeated}, replanning}, {{replanning, differed}, changed}, {{replanning, times_known}, replan},
    {{replanning, made}, planned},  {{replanning, failed}, planned},   {{replanning, outdated}, replan},
};

TEST(PlanStageTable, ChangesAsWrittenDownAndRefusesEverythingElse) {
  for (const PlanStage stage : kStages)
    for (const PlanEvent event : kEvents) {
      const auto legal = kLegal.find({stage, event});
      std::optional<PlanStage> expected;
      if (legal != kLegal.end()) expected = legal->second;
      if (event == forgotten) expected = recording;
      EXPECT_EQ(next_stage(stage, event), expected)
          << "stage " << static_cast<int>(stage) << ", event " << static_cast<int>(event);
    }
}

/// The stage after a legal event.
PlanStage after(PlanStage stage, PlanEvent event) { return next_stage(stage, event).value(); }

TEST(PlanStageTable, PlansTheFirstIterationAtOnceAndAnotherWhenItHasComeTwice) {
  EXPECT_TRUE(plan_is_due(after(recording, differed)));
  const PlanStage once = after(planned, differed);
  EXPECT_FALSE(plan_is_due(once));
  EXPECT_FALSE(plan_is_due(after(once, differed))) << "two others are not one that came twice";
  EXPECT_TRUE(plan_is_due(after(once, repeated)));
}

TEST(PlanStageTable, APlanIsCarriedOutWhileAnotherIsMade) {
  PlanStage stage = after(after(due, made), times_known);
  for (const PlanEvent event : {begun, repeated, outdated, begun, failed}) {
    EXPECT_TRUE(plan_in_force(stage)) << "before event " << static_cast<int>(event);
    EXPECT_EQ(plan_is_due(stage), event == begun) << "before event " << static_cast<int>(event);
    stage = after(stage, event);
  }
  EXPECT_EQ(stage, planned) << "where none was found, the one in force stays";
}

TEST(PlanStageTable, APlanThatFitsNowhereIsNotTriedAgainUntilTheTraceChanges) {
  const PlanStage tried = after(due, failed);
  EXPECT_FALSE(plan_is_due(after(tried, repeated)));
  EXPECT_FALSE(next_stage(tried, times_known)) << "no plan waits for the times";
  EXPECT_TRUE(plan_is_due(after(after(tried, differed), repeated)));
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "plan_stage.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace castor {
namespace {

using enum PlanStage;
using enum PlanEvent;

constexpr PlanStage kStages[] = {recording, changed, due, refused, planned, replan};
constexpr PlanEvent kEvents[] = {repeated, differed, times_known, made, failed, given, forgotten};

/// Every pair of stage and event that changes the stage, written independently of the table; all others leave it.
const std::map<std::pair<PlanStage, PlanEvent>, PlanStage> kChanges = {
    {{recording, repeated}, due},   {{recording, differed}, due},    {{recording, made}, planned},
    {{recording, failed}, refused}, {{recording, given}, due},    {{changed, repeated}, due},
    {{changed, made}, planned},     {{changed, failed}, refused},    {{changed, given}, due},
    {{changed, forgotten}, recording},
    {{due, differed}, changed},     {{due, made}, planned},          {{due, failed}, refused},
    {{due, forgotten}, recording},
    {{refused, differed}, changed}, {{refused, made}, planned},      {{refused, given}, due},
    {{refused, forgotten}, recording},
    {{planned, differed}, changed}, {{planned, times_known}, replan}, {{planned, given}, due},
    {{planned, forgotten}, recording},
    {{replan, differed}, changed},  {{replan, made}, planned},       {{replan, failed}, planned},
    {{replan, given}, due},      {{replan, forgotten}, recording},
};

TEST(PlanStageTable, ChangesAsWrittenDownAndNowhereElse) {
  for (const PlanStage stage : kStages)
    for (const PlanEvent event : kEvents) {
      const auto change = kChanges.find({stage, event});
      EXPECT_EQ(next_stage(stage, event), change == kChanges.end() ? stage : change->second)
          << "stage " << static_cast<int>(stage) << ", event " << static_cast<int>(event);
    }
}

TEST(PlanStageTable, PlansTheFirstIterationAtOnceAndAnotherWhenItHasComeTwice) {
  EXPECT_TRUE(plan_is_due(next_stage(recording, differed)));
  const PlanStage once = next_stage(planned, differed);
  EXPECT_FALSE(plan_is_due(once));
  EXPECT_FALSE(plan_is_due(next_stage(once, differed))) << "two others are not one that came twice";
  EXPECT_TRUE(plan_is_due(next_stage(once, repeated)));
}

TEST(PlanStageTable, APlanThatFitsNowhereIsNotTriedAgainUntilTheTraceChanges) {
  const PlanStage tried = next_stage(due, failed);
  EXPECT_FALSE(plan_is_due(next_stage(tried, repeated)));
  EXPECT_FALSE(plan_is_due(next_stage(tried, times_known)));
  EXPECT_TRUE(plan_is_due(next_stage(next_stage(tried, differed), repeated)));
}

}  // namespace
}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <castor/plan/plan_replay.h>

#include "iteration_follower.h"
#include "plan_stage.h"

namespace castor {

/// The trace of one kind of iterations, and its plan with its stage.
class Course {
 public:
  /// Borrowed.
  explicit Course(const Timeline& timeline) : follower(timeline) {}

  void take(PlanEvent event) {
    stage = next_stage(stage, event);
    if (stage != PlanStage::planned && stage != PlanStage::replan) replay.reset();
  }
  bool due() const { return plan_is_due(stage); }

  IterationFollower follower;
  std::unique_ptr<PlanReplay> replay;  ///< null unless the stage is planned or replan
  PlanStage stage = PlanStage::recording;
};

}  // namespace castor

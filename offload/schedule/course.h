// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <castor/plan/plan_replay.h>
#include <castor/schedule/scheduler.h>

#include "iteration_follower.h"
#include "plan_stage.h"

namespace castor {

/// The trace of one kind of iterations, and its plan with its stage.
class Scheduler::Course {
 public:
  /// Borrowed.
  explicit Course(const Timeline& timeline) : follower_(timeline) {}

  IterationFollower& follower() { return follower_; }
  /// The plan in force; null where there is none.
  const PlanReplay* replay() const { return replay_.get(); }
  /// True where a plan is to be made.
  bool due() const { return plan_is_due(stage_); }

  /// Ends the iteration; the trace just recorded is expected from now on.
  void end_iteration();
  /// Has the plan made anew if the times of the trace have become final since the last call.
  void note_final_times();
  /// Puts `plan`, made of `problem`, in force. Requires: a plan is due (ContractViolation).
  void carry_out(const MoveProblem& problem, StepPlan plan);
  /// No plan was found. Requires: a plan is due (ContractViolation).
  void refuse() { take(PlanEvent::failed); }
  /// Forgets trace and plan.
  void forget();
  /// Has the iterations follow `trace`, for which a plan is due. Requires: forget() was called, and no iteration since
  /// (ContractViolation).
  void expect(AccessTrace trace);

 private:
  void take(PlanEvent event);

  IterationFollower follower_;
  std::unique_ptr<PlanReplay> replay_;  ///< null unless the stage is planned or replan
  PlanStage stage_ = PlanStage::recording;
};

}  // namespace castor

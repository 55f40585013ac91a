// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <castor/memory/result.h>
#include <castor/plan/plan_replay.h>
#include <castor/schedule/plan_conditions.h>
#include <castor/schedule/planner.h>
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
  /// The orders of the plan at `position`; none where there is no plan, or the iteration has left the trace.
  std::optional<MoveOrders> orders_at(std::uint64_t position) const;
  /// True where a plan is to be made.
  bool due() const { return plan_is_due(stage_); }

  /// Ends the iteration; the trace just recorded is expected from now on.
  void end_iteration();
  /// Has the plan made anew if the times of the trace have become final since the last call.
  void note_final_times();
  /// A plan that was made beside the iterations, for `problem`.
  struct Drafted {
    PlanToken token;
    MoveProblem problem;
    Result<StepPlan> plan;
  };
  /// Has another plan made from the trace and its times while the one in force is carried out. Requires: a plan is due,
  /// and one is in force (ContractViolation).
  void begin_draft(Planner& planner, const PlanConditions& conditions);
  /// True from begin_draft() until a plan is carried out or refused, or the trace is another.
  bool drafting() const { return draft_ != nullptr; }
  /// The plan that was begun last, if it has been made; nothing if it is out of date, since the conditions have another
  /// token: then a plan is due again.
  std::optional<Drafted> take_draft(const PlanToken& token);

  /// Puts `plan`, made of `problem`, in force. Requires: a plan is due, or drafted (ContractViolation).
  void carry_out(const MoveProblem& problem, StepPlan plan);
  /// No plan was found. Requires: as carry_out.
  void refuse() { take(PlanEvent::failed); }
  /// Forgets trace and plan.
  void forget();
  /// Has the iterations follow `trace`, for which a plan is due. Requires: forget() was called, and no iteration since
  /// (ContractViolation).
  void expect(AccessTrace trace);

 private:
  void take(PlanEvent event);

  IterationFollower follower_;
  std::unique_ptr<PlanReplay> replay_;     ///< null unless plan_in_force(stage_)
  std::unique_ptr<Draft<Drafted>> draft_;  ///< null unless the stage is replanning
  PlanStage stage_ = PlanStage::recording;
};

}  // namespace castor

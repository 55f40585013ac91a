// SPDX-License-Identifier: Apache-2.0
#include "course.h"

#include <string>
#include <utility>

#include <castor/memory/result.h>

namespace castor {

void Scheduler::Course::take(PlanEvent event) {
  const auto next = next_stage(stage_, event);
  if (!next)
    throw ContractViolation("Scheduler: event " + std::to_string(static_cast<int>(event)) + " in plan stage " +
                            std::to_string(static_cast<int>(stage_)));
  stage_ = *next;
  if (stage_ != PlanStage::planned && stage_ != PlanStage::replan) replay_.reset();
}

void Scheduler::Course::end_iteration() {
  follower_.end();
  take(follower_.repeated() ? PlanEvent::repeated : PlanEvent::differed);
  note_final_times();
}

void Scheduler::Course::note_final_times() {
  TraceTimes& times = follower_.times();
  if (!replay_ || !times.newly_final()) return;
  times.note_final_seen();
  take(PlanEvent::times_known);
}

void Scheduler::Course::carry_out(const MoveProblem& problem, StepPlan plan) {
  take(PlanEvent::made);
  replay_ = std::make_unique<PlanReplay>(problem, std::move(plan));
}

void Scheduler::Course::forget() {
  follower_.expect({});
  take(PlanEvent::forgotten);
}

void Scheduler::Course::expect(AccessTrace trace) {
  follower_.expect(std::move(trace));
  take(PlanEvent::given);
}

}  // namespace castor

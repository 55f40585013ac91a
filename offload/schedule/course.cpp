// SPDX-License-Identifier: Apache-2.0
#include "course.h"

#include <string>
#include <utility>

#include <castor/memory/result.h>
#include <castor/schedule/step_model.h>

namespace castor {

void Scheduler::Course::take(PlanEvent event) {
  const auto next = next_stage(stage_, event);
  if (!next)
    throw ContractViolation("Scheduler: event " + std::to_string(static_cast<int>(event)) + " in plan stage " +
                            std::to_string(static_cast<int>(stage_)));
  stage_ = *next;
  if (!plan_in_force(stage_)) replay_.reset();
  if (stage_ != PlanStage::replanning) draft_.reset();
}

void Scheduler::Course::end_iteration() {
  follower_.end();
  take(follower_.repeated() ? PlanEvent::repeated : PlanEvent::differed);
  note_final_times();
}

std::optional<MoveOrders> Scheduler::Course::orders_at(std::uint64_t position) const {
  if (!replay_ || !follower_.on_trace()) return {};
  return replay_->orders(position);
}

void Scheduler::Course::note_final_times() {
  TraceTimes& times = follower_.times();
  if (!replay_ || !times.newly_final()) return;
  times.note_final_seen();
  take(PlanEvent::times_known);
}

void Scheduler::Course::begin_draft(Planner& planner, const PlanConditions& conditions) {
  take(PlanEvent::begun);
  const AccessTrace& trace = follower_.trace();
  draft_ = std::make_unique<Draft<Drafted>>(
      planner, [token = conditions.token, problem = problem_of(trace, conditions), seconds = trace.seconds()] {
        return Drafted{token, problem, plan_step(problem, seconds)};
      });
}

std::optional<Scheduler::Course::Drafted> Scheduler::Course::take_draft(const PlanToken& token) {
  if (!draft_ || !draft_->ready()) return {};
  Drafted made = draft_->take();
  if (made.token == token) return made;
  take(PlanEvent::outdated);
  return {};
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

// SPDX-License-Identifier: Apache-2.0
#include <castor/schedule/scheduler.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <castor/schedule/step_model.h>

#include "course.h"

namespace castor {
namespace {

IndexedVector<ChunkId, std::uint64_t> bytes_of(const ChunkManager& chunks) {
  IndexedVector<ChunkId, std::uint64_t> n_bytes;
  for (const ChunkId id : chunks.ids()) n_bytes.push_back(chunks.chunk(id).n_bytes);
  return n_bytes;
}

}  // namespace

Scheduler::Scheduler(const Parts& parts) : parts_(parts), planner_(parts.planner ? *parts.planner : at_once_) {
  for (auto& course : courses_) course = std::make_unique<Course>(parts.timeline);
  course_ = courses_.front().get();
  parts_.mover.guide_by(course_->follower());
}

Scheduler::~Scheduler() = default;

Result<void> Scheduler::begin(Moment moment, std::span<const Need> needs, Beside* beside) {
  moment.beside = beside != nullptr;
  if (!in_iteration()) switch_course();
  if (course_->due()) CASTOR_TRY(await_times());
  IterationFollower& follower = course_->follower();
  const bool on_device =
      std::any_of(needs.begin(), needs.end(), [](const Need& need) { return need.tier == Tier::device; });
  WorkTimer* const thread_or_stream = on_device ? &parts_.compute : nullptr;
  const std::uint64_t n_new = follower.begin(moment, needs, beside ? &beside->timer : thread_or_stream);
  const bool is_first = follower.n_begun() == n_new;
  if (is_first) bring_plan();
  if (is_first || !follower.on_trace()) parts_.mover.planned().forget_fetches();
  for (std::uint64_t position = follower.n_begun() - n_new; position < follower.n_begun(); ++position) {
    const auto orders = course_->orders_at(position);
    orders ? parts_.mover.planned().add(*orders) : parts_.mover.planned().forget_moves();
  }
  const UnitId unit = of_unit(moment.kind) ? UnitId{moment.id} : StatefulTensorMgr::kNoUnit;
  auto outcome = parts_.mover.begin(needs, beside, unit);
  follower.start();
  return outcome;
}

Result<void> Scheduler::join(Moment moment) {
  CASTOR_TRY(begin(moment, {}));
  auto reached = parts_.mover.join_compute();
  end({});
  return reached;
}

void Scheduler::end_iteration() {
  course_->end_iteration();
  if (!course_->replay()) parts_.mover.planned().drop();
}

void Scheduler::break_off() { course_->follower().break_off(); }

bool Scheduler::in_iteration() const { return course_->follower().in_iteration(); }

bool Scheduler::at_start() const { return course_->follower().at_start(); }

const AccessTrace& Scheduler::trace() const { return course_->follower().trace(); }

Result<void> Scheduler::await_times() {
  const TraceTimes& times = course_->follower().times();
  return parts_.mover.join_host([&times](std::chrono::nanoseconds limit) { return times.known_within(limit); },
                                "the updates of the last step");
}

Result<void> Scheduler::settle_times() {
  CASTOR_TRY(await_times());
  course_->follower().settle_times();
  return {};
}

bool Scheduler::timed() const { return course_->follower().times().final(); }

bool Scheduler::advance_plan() {
  course_->follower().settle_times();
  course_->note_final_times();
  bring_plan();
  return !plan_pending();
}

bool Scheduler::plan_pending() const { return course_->due() || course_->drafting(); }

const StepPlan* Scheduler::plan() const { return course_->replay() ? &course_->replay()->plan() : nullptr; }

std::optional<StepBound> Scheduler::bound() const {
  if (!course_->replay() || trace().seconds().compute.empty()) return {};
  return step_bound(trace(), trace().seconds(), *plan(), bytes_of(parts_.chunks), parts_.costs);
}

PlanToken Scheduler::token() const { return {n_forgotten_, {parts_.device.limit_bytes(), parts_.host.limit_bytes()}}; }

PlanConditions Scheduler::conditions() const {
  PlanConditions now;
  now.token = token();
  now.n_bytes = bytes_of(parts_.chunks);
  for (const ChunkId id : parts_.chunks.ids()) now.has_contents.push_back(parts_.chunks.chunk(id).has_contents());
  now.rest = parts_.mover.planned().rest();
  now.rest.resize(now.n_bytes.size(), kAnywhere);
  now.costs = parts_.costs;
  now.nvme = parts_.chunks.below().spill() != nullptr;
  return now;
}

MoveProblem Scheduler::problem() const { return problem_of(trace(), conditions()); }

/// Makes the plan that is due, beside the iterations where another is carried out. Puts a plan in force that is there.
void Scheduler::bring_plan() {
  Course& course = *course_;
  if (!plan_pending()) return;
  course.follower().wait_begins();
  course.follower().settle_times();
  if (course.due()) course.replay() ? course.begin_draft(planner_, conditions()) : make_plan();
  if (auto made = course.take_draft(token()))
    made->plan.ok() ? carry_out(made->problem, std::move(*made->plan)) : course.refuse();
  course.follower().wait_ends();
}

/// Makes the first plan of trace(). Where no plan fits, chunks are fetched when they are needed.
void Scheduler::make_plan() {
  if (trace().empty()) return course_->refuse();
  const MoveProblem problem = this->problem();
  if (auto plan = plan_step(problem, trace().seconds()); plan.ok())
    carry_out(problem, std::move(*plan));
  else
    course_->refuse();
}

void Scheduler::carry_out(const MoveProblem& problem, StepPlan plan) {
  course_->carry_out(problem, std::move(plan));
  parts_.mover.planned().follow(course_->replay()->between_iterations());
}

/// Switches to the course of the next iteration's kind.
void Scheduler::switch_course() {
  Course* const next = courses_[static_cast<std::size_t>(next_kind_)].get();
  if (std::exchange(course_, next) == next) return;
  parts_.mover.guide_by(next->follower());
  if (next->replay())
    parts_.mover.planned().follow(next->replay()->between_iterations());
  else
    parts_.mover.planned().drop();
}

void Scheduler::expect(AccessTrace trace, StepPlan plan) {
  expect(std::move(trace));
  carry_out(problem(), std::move(plan));
}

void Scheduler::expect(AccessTrace trace) {
  forget_trace();
  course_->expect(std::move(trace));
}

void Scheduler::forget_trace() {
  ++n_forgotten_;
  for (auto& course : courses_) course->forget();
  parts_.mover.planned().drop();
  switch_course();
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "next_placement.h"

#include <utility>

#include <castor/schedule/step_model.h>

namespace castor {

void NextPlacement::prepare(StatePlacement placement, std::shared_ptr<const Basis> basis) {
  placement_ = std::move(placement);
  basis_ = std::move(basis);
  begin();
}

/// The planner reads the parts of the rooms that do not change, and copies.
void NextPlacement::begin() {
  const OffloadOptimizer& optimizer = *rooms_.optimizer;
  PlanConditions conditions = rooms_.scheduler->conditions();
  for (const auto& [chunk, rest] : optimizer.states().rest_under(placement_)) conditions.rest[chunk] = rest;
  token_ = conditions.token;
  speculates_ = optimizer.speculates_under(placement_);
  const RehearsedStep step = {.layout = rooms_.layout,
                              .registration_order = rooms_.registration_order,
                              .unit_chunks = rooms_.used,
                              .script = basis_->step.script,
                              .format = rooms_.options.format,
                              .overlap = rooms_.options.overlap_updates,
                              .plain_norms = speculates_};
  draft_ = std::make_unique<Draft<Result<Foreseen>>>(
      *rooms_.planner,
      [step, basis = basis_, placement = placement_, conditions = std::move(conditions)]() -> Result<Foreseen> {
        CASTOR_ASSIGN(const Rehearsal rehearsed, rehearse(step, placement, basis->step.options));
        AccessTrace trace = timed_as(basis->recorded, rehearsed, basis->step.activations);
        auto plan = plan_step(problem_of(trace, conditions), trace.seconds());
        return Foreseen{std::move(trace), std::move(plan)};
      });
}

bool NextPlacement::out_of_date() const {
  return rooms_.scheduler->token() != token_ || rooms_.optimizer->speculates_under(placement_) != speculates_;
}

Result<NextPlacement::Progress> NextPlacement::advance() {
  if (draft_->ready() && out_of_date()) begin();
  if (!draft_->ready()) return Progress::preparing;
  const auto draft = std::exchange(draft_, nullptr);
  Result<Foreseen> foreseen = draft->take();
  CASTOR_TRY(rooms_.optimizer->adopt(std::move(placement_)));
  if (!foreseen.ok()) return Progress::unforeseen;
  auto& [trace, plan] = *foreseen;
  plan.ok() ? rooms_.scheduler->expect(std::move(trace), std::move(*plan)) : rooms_.scheduler->expect(std::move(trace));
  return Progress::as_forecast;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "foresight.h"

#include <utility>

#include <castor/schedule/step_model.h>

namespace castor {

Foresight::Foresight(const EngineRooms& rooms, std::shared_ptr<const IterationRecord> basis, bool speculates)
    : states_(rooms.optimizer->states()),
      basis_(std::move(basis)),
      conditions_(rooms.scheduler->conditions()),
      step_{.layout = rooms.layout,
            .registration_order = rooms.registration_order,
            .unit_chunks = rooms.used,
            .script = basis_->step.script,
            .format = rooms.options.format,
            .overlap = rooms.options.overlap_updates,
            .plain_norms = speculates} {}

Result<Foreseen> Foresight::under(const StatePlacement& placement) const {
  PlanConditions conditions = conditions_;
  for (const auto& [chunk, rest] : states_.rest_under(placement)) conditions.rest[chunk] = rest;
  CASTOR_ASSIGN(const Rehearsal rehearsed, rehearse(step_, placement, basis_->step.options));
  AccessTrace trace = timed_as(basis_->trace, rehearsed, basis_->step.activations);
  auto plan = plan_step(problem_of(trace, conditions), trace.seconds());
  return Foreseen{std::move(trace), std::move(plan)};
}

}  // namespace castor

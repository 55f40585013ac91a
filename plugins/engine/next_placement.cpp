// SPDX-License-Identifier: Apache-2.0
#include "next_placement.h"

#include <utility>

namespace castor {

void NextPlacement::prepare(StatePlacement placement, std::shared_ptr<const IterationRecord> basis) {
  placement_ = std::move(placement);
  basis_ = std::move(basis);
  begin();
}

void NextPlacement::begin() {
  foresight_ = std::make_shared<const Foresight>(rooms_, basis_, rooms_.optimizer->speculates_under(placement_));
  draft_ = std::make_unique<Draft<Result<Foreseen>>>(
      *rooms_.planner, [foresight = foresight_, placement = placement_] { return foresight->under(placement); });
}

bool NextPlacement::out_of_date() const {
  return rooms_.scheduler->token() != foresight_->token() ||
         rooms_.optimizer->speculates_under(placement_) != foresight_->speculates();
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

// SPDX-License-Identifier: Apache-2.0
#include "unit_passes.h"

#include <utility>

namespace castor {

/// The order of the calls matters: early updates free gradients before the chunks of the unit need room, and the device
/// is watched before the chunks move.
Result<void> UnitPasses::enter(Moment moment) {
  end_span();
  CASTOR_TRY(values_.initialise());
  OffloadOptimizer& optimizer = *rooms_.optimizer;
  CASTOR_TRY(optimizer.update_early());
  for (const std::uint32_t chunk : rooms_.used.at(moment.id)) CASTOR_TRY(optimizer.use(chunk));
  rooms_.watch.begin_unit(moment);
  rooms_.sample();
  CASTOR_TRY(rooms_.scheduler->begin(moment, rooms_.needs.at(moment.id)));
  rooms_.watch.chunks_arrived();
  if (auto bound = rooms_.bindings->bind(moment.id, *rooms_.chunks); !bound.ok()) {
    leave(moment.id);
    return bound;
  }
  const Phase phase = moment.kind == MomentKind::forward ? Phase::forward : Phase::backward;
  span_ = {rooms_.computed->begin(), {Lane::compute, moment.id, 0, 0, 0, phase}};
  return {};
}

void UnitPasses::end_span() {
  if (auto ended = std::exchange(span_, {})) rooms_.computed->end(std::move(ended->begun), ended->record);
}

Result<void> UnitPasses::begin_forward(std::uint32_t unit) {
  end_forward(unit);  // its last forward pass may have been cut short
  CASTOR_TRY(enter({MomentKind::forward, unit}));
  open_[unit].forward = true;
  return {};
}

void UnitPasses::end_forward(std::uint32_t unit) {
  if (std::exchange(open_.at(unit).forward, false)) leave(unit);
}

Result<void> UnitPasses::begin_backward(std::uint32_t unit) {
  CASTOR_TRY(enter({MomentKind::backward, unit}));
  ++open_[unit].n_backward;
  return {};
}

void UnitPasses::end_backward(std::uint32_t unit) {
  if (open_.at(unit).n_backward == 0) return;
  --open_[unit].n_backward;
  leave(unit);
}

void UnitPasses::end_all() {
  end_span();
  for (std::uint32_t unit = 0; unit < open_.size(); ++unit) {
    end_forward(unit);
    while (open_[unit].n_backward > 0) end_backward(unit);
  }
}

}  // namespace castor

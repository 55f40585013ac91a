// SPDX-License-Identifier: Apache-2.0
#include "unit_passes.h"

#include <utility>

namespace castor {

/// The order of the calls matters: early updates free gradients before the chunks of the unit need room, and the device
/// is watched before the chunks move.
Result<void> UnitPasses::enter(MomentKind pass, std::uint32_t unit) {
  Moment moment = {pass, unit};
  moment.micro_batch = micro_batch_;
  end_span();
  CASTOR_TRY(values_.initialise());
  CASTOR_TRY(rooms_.optimizer->prepare(rooms_.used.at(moment.id)));
  rooms_.watch.begin_unit(moment);
  rooms_.sample();
  CASTOR_TRY(rooms_.scheduler->begin(moment, rooms_.needs.at(moment.id)));
  rooms_.watch.chunks_arrived();
  if (auto bound = rooms_.bindings->bind(moment.id, *rooms_.chunks); !bound.ok()) {
    rooms_.scheduler->end(rooms_.needs[moment.id]);
    return bound;
  }
  const Phase phase = moment.kind == MomentKind::forward ? Phase::forward : Phase::backward;
  span_ = {rooms_.computed->begin(), {Lane::compute, moment.id, 0, 0, 0, phase}};
  rooms_.calls.enter(phase == Phase::forward ? StepCall::Kind::forward : StepCall::Kind::backward, moment.id);
  return {};
}

void UnitPasses::leave(std::uint32_t unit, StepCall::Kind pass) {
  rooms_.scheduler->end(rooms_.needs[unit]);
  rooms_.calls.add(pass, unit);
}

void UnitPasses::end_span() {
  if (auto ended = std::exchange(span_, {})) rooms_.computed->end(std::move(ended->begun), ended->record);
}

Result<void> UnitPasses::begin_forward(std::uint32_t unit) {
  end_forward(unit);  // its last forward pass may have been cut short
  CASTOR_TRY(enter(MomentKind::forward, unit));
  open_[unit].forward = true;
  return {};
}

void UnitPasses::end_forward(std::uint32_t unit) {
  if (std::exchange(open_.at(unit).forward, false)) leave(unit, StepCall::Kind::end_forward);
}

Result<void> UnitPasses::begin_backward(std::uint32_t unit) {
  CASTOR_TRY(enter(MomentKind::backward, unit));
  ++open_[unit].n_backward;
  return {};
}

void UnitPasses::end_backward(std::uint32_t unit) {
  if (open_.at(unit).n_backward == 0) return;
  --open_[unit].n_backward;
  leave(unit, StepCall::Kind::end_backward);
}

void UnitPasses::end_micro_batch() {
  end_all();
  ++micro_batch_;
}

void UnitPasses::end_step() {
  end_all();
  micro_batch_ = 0;
}

void UnitPasses::end_all() {
  end_span();
  for (std::uint32_t unit = 0; unit < open_.size(); ++unit) {
    end_forward(unit);
    while (open_[unit].n_backward > 0) end_backward(unit);
  }
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "unit_passes.h"

#include <utility>

namespace castor {

/// The order of the calls matters: early updates free gradients before the chunks of the unit need room, and the device
/// is watched before the chunks move.
Result<void> UnitPasses::enter(MomentKind pass, UnitId unit) {
  Moment moment = {pass, number(unit)};
  moment.micro_batch = micro_batch_;
  end_span();
  CASTOR_TRY(values_.begin_use());
  CASTOR_TRY(lent_.bind_first());
  CASTOR_TRY(rooms_.optimizer->prepare(rooms_.used.at(unit)));
  rooms_.watch.begin_unit(moment);
  CASTOR_TRY(gradient_room_.before(moment));
  rooms_.sample();
  CASTOR_TRY(rooms_.scheduler->begin(moment, rooms_.needs.at(unit)));
  rooms_.watch.chunks_arrived();
  if (auto bound = rooms_.bindings->bind(unit, *rooms_.chunks); !bound.ok()) {
    rooms_.scheduler->end(rooms_.needs[unit]);
    return bound;
  }
  const Phase phase = pass == MomentKind::forward ? Phase::forward : Phase::backward;
  span_ = {rooms_.computed->begin(), {Lane::compute, moment.id, 0, 0, 0, phase}};
  rooms_.calls.enter(phase == Phase::forward ? StepCall::Kind::forward : StepCall::Kind::backward, moment.id,
                     rooms_.scheduler->at_start());
  return {};
}

void UnitPasses::leave(UnitId unit, StepCall::Kind pass) {
  rooms_.scheduler->end(rooms_.needs[unit]);
  rooms_.calls.add(pass, number(unit));
}

void UnitPasses::end_span() {
  if (auto ended = std::exchange(span_, {})) rooms_.computed->end(std::move(ended->begun), ended->record);
}

Result<void> UnitPasses::begin_forward(UnitId unit) {
  end_forward(unit);  // its last forward pass may have been cut short
  CASTOR_TRY(enter(MomentKind::forward, unit));
  open_[unit].forward = true;
  return {};
}

void UnitPasses::end_forward(UnitId unit) {
  if (std::exchange(open_.at(unit).forward, false)) leave(unit, StepCall::Kind::end_forward);
}

Result<void> UnitPasses::begin_backward(UnitId unit) {
  CASTOR_TRY(enter(MomentKind::backward, unit));
  ++open_[unit].n_backward;
  return {};
}

void UnitPasses::end_backward(UnitId unit) {
  if (open_.at(unit).n_backward == 0) return;
  --open_[unit].n_backward;
  leave(unit, StepCall::Kind::end_backward);
}

void UnitPasses::end_micro_batch() {
  end_span();
  for (const UnitId unit : open_.ids()) end_backward_passes(unit);
  ++micro_batch_;
}

void UnitPasses::end_step() {
  end_all();
  micro_batch_ = 0;
}

void UnitPasses::end_all() {
  end_span();
  for (const UnitId unit : open_.ids()) {
    end_forward(unit);
    end_backward_passes(unit);
  }
}

void UnitPasses::end_backward_passes(UnitId unit) {
  while (open_[unit].n_backward > 0) end_backward(unit);
}

}  // namespace castor

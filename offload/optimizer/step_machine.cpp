// SPDX-License-Identifier: Apache-2.0
#include "step_machine.h"

#include <string>

namespace castor {
namespace {

constexpr const char* kBetweenSteps =
    "an earlier step failed after some parameters were updated, so the model is between two steps; start again from "
    "a checkpoint";

/// Why `event` is refused in `state`.
std::string refusal(StepState state, StepEvent event) {
  if (state == StepState::poisoned) return kBetweenSteps;
  if (event == StepEvent::announce && state == StepState::updating)
    return "a step was announced and some parameters were updated early, but it was never ended, so the model is "
           "between two steps; start again from a checkpoint";
  if (event == StepEvent::abandon)
    return "the step was to be abandoned after some parameters were updated, so the model is between two steps; start "
           "again from a checkpoint";
  if (event == StepEvent::catch_up) return "no update was waiting for the next use of its chunk";
  return "updates of the step before are still waiting; they must be made first";
}

}  // namespace

Result<void> StepMachine::take(StepEvent event) {
  if (const auto next = next_state(state_, event)) return state_ = *next, Result<void>();
  Error refused{ErrorKind::failed, refusal(state_, event)};
  if (state_ == StepState::updating) fail();
  return refused;
}

Result<void> StepMachine::whole() const {
  if (in(StepState::poisoned)) return Error{ErrorKind::failed, kBetweenSteps};
  return {};
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/optimizer/pending_gradients.h>

#include "norms/gradient_norm.h"
#include "step_machine.h"

namespace castor {

/// A step with a norm, of which the norm alone is looked at.
Result<double> PendingGradients::norm() {
  if (parts_.machine.in(StepState::updating))
    return Error{ErrorKind::usage,
                 "the norm was asked for after parameters were updated early in this step; measure it before the step "
                 "is announced, or announce the step with max_norm"};
  CASTOR_TRY(parts_.barrier.complete_all());
  CASTOR_TRY(parts_.store.intact());
  StepOptions measured;
  measured.max_norm = 1;
  CASTOR_ASSIGN(const StepScale scale, parts_.norm.measure(measured));
  return scale.grad_norm;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plan/step_plan.h>

namespace castor {

/// Tries plans with more or less room set aside for chunks that arrive and leave, each by a dry run, and returns the
/// one with the shortest step. More room hides more moves behind computing; less room leaves more chunks where they
/// are.
///
/// Uses at most kFetchAhead moments apart count as one; n_ahead and n_behind of the uses, and `n_together` of the
/// problem, are ignored. Requires: seconds of all moments (ContractViolation). Pure. Errors: those of plan_moves and
/// dry_run.
Result<StepPlan> plan_step(MoveProblem problem, const MomentSeconds& seconds);

}  // namespace castor

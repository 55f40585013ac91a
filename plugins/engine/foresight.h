// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <castor/optimizer/rehearsal.h>

#include "engine_rooms.h"

namespace castor {

/// An iteration that ran, with the calls of its step.
struct IterationRecord {
  AccessTrace trace;
  StepRecorder::Step step;
};

/// An iteration that has not run yet.
struct Foreseen {
  AccessTrace trace;
  Result<StepPlan> plan;
};

/// Foresees iterations under other placements, from one that ran: the step is rehearsed, and its moves are planned.
///
/// Threads: any, beside the training. It reads the parts of the rooms that do not change, and copies of the others as
/// they were when it was made.
class Foresight {
 public:
  /// Borrowed: `rooms`. `speculates`: updates of the foreseen iterations are speculative where their placement says so.
  Foresight(const EngineRooms& rooms, std::shared_ptr<const IterationRecord> basis, bool speculates);

  /// Takes a fifth of a second to a second for 100 units. Errors: those of rehearse.
  Result<Foreseen> under(const StatePlacement& placement) const;

  /// Identifies the traces and budgets that plans are made for.
  const PlanToken& token() const { return conditions_.token; }
  bool speculates() const { return step_.plain_norms; }

 private:
  const StateLayout& states_;
  const std::shared_ptr<const IterationRecord> basis_;  // owners: this, and who makes several of them
  const PlanConditions conditions_;                     ///< but for the places of rest, which the placement decides
  const RehearsedStep step_;
};

}  // namespace castor

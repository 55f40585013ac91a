// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <castor/optimizer/rehearsal.h>
#include <castor/schedule/planner.h>

#include "engine_rooms.h"

namespace castor {

/// A placement that is to be adopted: the planner rehearses and plans the iteration under it while steps go on under
/// the placement in force, so that no step runs without a plan.
///
/// Threads: one at a time.
class NextPlacement {
 public:
  /// An iteration that ran under another placement, with the calls of its step: the ground of a rehearsal.
  struct Basis {
    AccessTrace recorded;
    StepRecorder::Step step;
  };
  enum class Progress : std::uint8_t {
    preparing,    ///< the planner is at work
    as_forecast,  ///< adopted; the next iteration has been rehearsed
    unforeseen,  ///< adopted; the step could not be rehearsed: the next iteration is recorded, the one after it planned
  };

  /// Borrowed.
  explicit NextPlacement(EngineRooms& rooms) : rooms_(rooms) {}

  /// Begins to prepare `placement`. One that is being prepared is dropped.
  void prepare(StatePlacement placement, std::shared_ptr<const Basis> basis);
  /// Drops the placement that is being prepared, if there is one.
  void drop() { draft_.reset(); }
  /// True from prepare() until the placement is adopted or dropped.
  bool preparing() const { return draft_ != nullptr; }
  /// Adopts the placement if it is prepared, and has its plan carried out from the next iteration on. A preparation
  /// that is out of date, since budgets, traces or norms are others, begins anew. Requires: preparing(); between two
  /// iterations. Errors: those of OffloadOptimizer::adopt.
  [[nodiscard]] Result<Progress> advance();

 private:
  struct Foreseen {
    AccessTrace trace;
    Result<StepPlan> plan;
  };

  void begin();
  bool out_of_date() const;

  EngineRooms& rooms_;
  StatePlacement placement_;
  std::shared_ptr<const Basis> basis_;  // owners: this, the caller, and the drafts under way
  PlanToken token_;                     ///< when the draft began
  bool speculates_ = false;             ///< the same
  std::unique_ptr<Draft<Result<Foreseen>>> draft_;
};

}  // namespace castor

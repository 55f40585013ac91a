// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <castor/schedule/planner.h>

#include "engine_rooms.h"
#include "foresight.h"

namespace castor {

/// A placement that is to be adopted: the planner foresees the iteration under it while steps go on under the placement
/// in force, so that no step runs without a plan.
///
/// Threads: one at a time.
class NextPlacement {
 public:
  enum class Progress : std::uint8_t {
    preparing,    ///< the planner is at work
    as_forecast,  ///< adopted; the next iteration has been rehearsed
    unforeseen,  ///< adopted; the step could not be rehearsed: the next iteration is recorded, the one after it planned
  };

  /// Borrowed.
  explicit NextPlacement(EngineRooms& rooms) : rooms_(rooms) {}

  /// Begins to prepare `placement`, from an iteration that ran under another. One that is being prepared is dropped.
  void prepare(StatePlacement placement, std::shared_ptr<const IterationRecord> basis);
  /// Drops the placement that is being prepared, if there is one.
  void drop() { draft_.reset(); }
  /// Adopts the placement if it is prepared, and has its plan carried out from the next iteration on. A preparation
  /// that is out of date, since budgets, traces or norms are others, begins anew. Requires: prepare() was called, and
  /// this has not adopted since; between two iterations. Errors: those of OffloadOptimizer::adopt.
  [[nodiscard]] Result<Progress> advance();

 private:
  void begin();
  bool out_of_date() const;

  EngineRooms& rooms_;
  StatePlacement placement_;
  std::shared_ptr<const IterationRecord> basis_;  // owners: this, the caller, and the drafts under way
  std::shared_ptr<const Foresight> foresight_;    // owners: this and the draft
  std::unique_ptr<Draft<Result<Foreseen>>> draft_;
};

}  // namespace castor

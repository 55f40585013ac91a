// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <castor/plan/step_plan.h>

namespace castor {

/// The places that a plan wants a chunk in, from some moment on.
struct WantedPlaces {
  ChunkId chunk{};
  Places places = kNowhere;
};

/// The part of a plan that begins with one moment.
struct MoveOrders {
  std::span<const WantedPlaces> leaving;   ///< chunks that the moment before used, and their places from now on
  std::span<const WantedPlaces> used;      ///< chunks that this moment uses, and their places meanwhile
  std::span<const PlannedMove> fetches;    ///< moves that start here and that a later use waits for
};

/// A plan sorted by the moments at which its parts begin.
class PlanReplay {
 public:
  PlanReplay(const MoveProblem& problem, StepPlan plan);

  const StepPlan& plan() const { return plan_; }
  /// Valid as long as this object. Requires: a moment of the problem (std::out_of_range).
  MoveOrders orders(std::uint64_t position) const;
  /// The places of every chunk between two iterations.
  IndexedVector<ChunkId, Places> between_iterations() const;

 private:
  const StepPlan plan_;
  std::vector<std::vector<WantedPlaces>> leaving_, used_;
  std::vector<std::vector<PlannedMove>> fetches_;
};

}  // namespace castor

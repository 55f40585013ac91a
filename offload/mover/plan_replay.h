// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <castor/schedule/step_model.h>

namespace castor {

/// A plan in the order in which it is carried out, moment by moment.
class PlanReplay {
 public:
  /// Where a chunk shall be from a moment on.
  struct Rest {
    ChunkId chunk = 0;
    Places places = kNowhere;
  };

  PlanReplay(const MoveProblem& problem, StepPlan plan);

  const StepPlan& plan() const { return plan_; }
  /// What was used at the moment before `position`, and where it shall be from then on.
  std::span<const Rest> leaving(std::uint64_t position) const { return leaving_.at(position); }
  /// What is used at `position`, and where it shall be meanwhile.
  std::span<const Rest> used(std::uint64_t position) const { return used_.at(position); }
  /// The fetches that start at `position`.
  std::span<const PlannedMove> coming(std::uint64_t position) const { return coming_.at(position); }

 private:
  const StepPlan plan_;
  std::vector<std::vector<Rest>> leaving_, used_;
  std::vector<std::vector<PlannedMove>> coming_;
};

}  // namespace castor

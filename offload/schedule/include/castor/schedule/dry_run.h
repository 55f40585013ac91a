// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <castor/schedule/step_model.h>

namespace castor {

/// A planned iteration, run by the real mover, chunks and pools on a simulated machine: copies move nothing and take
/// the time that links cost, moments take the time that they took, and memory is addresses alone. The resulting step
/// includes effects that a plan leaves out: copies on their way through the host, gradients that wait for room, the
/// thread that runs ahead of the device, and the mover's choices where it cannot keep to the plan.
///
/// Gradients of a moment arrive at its end.
class DryRun {
 public:
  /// Begins with every chunk where `plan`, made of `problem` by plan_step, has it between two iterations.
  DryRun(const MoveProblem& problem, const MomentSeconds& seconds, const StepPlan& plan);
  ~DryRun();

  /// The next iteration. Errors: those of the mover.
  Result<StepEstimate> step();

  /// The memory that a tier's pool took and reused.
  struct PoolUse {
    std::uint64_t peak_taken_bytes = 0, peak_in_use_bytes = 0;
    std::uint64_t fresh_bytes = 0,
                  exchanged_bytes = 0;  ///< in the last step: newly taken, and made from blocks of other sizes
  };
  PoolUse pool_use(Tier tier) const;

 private:
  struct World;
  std::unique_ptr<World> world_;
};

/// The steady step: runs iterations of a DryRun until two in a row differ by at most 1 %, at most four. Cost: about 5
/// µs per move and iteration. Errors: those of the mover.
Result<StepEstimate> dry_run(const MoveProblem& problem, const MomentSeconds& seconds, const StepPlan& plan);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <castor/schedule/step_model.h>

namespace castor {

/// A planned iteration, run by the real mover, chunks and pools on a machine that is not real: copies move nothing and take
/// the time that links cost, moments take the time that they took, and memory is addresses alone. So the step that comes
/// out has what a plan leaves out: copies on their way through the host, gradients that wait for room, the thread that
/// runs ahead of the device, and what the mover does where it cannot keep to the plan.
///
/// Of a moment's gradients it knows that they arrive, and lets them do so at its end.
class DryRun {
 public:
  /// Begins with every chunk where `plan`, made of `problem` by plan_step, has it between two iterations.
  DryRun(const MoveProblem& problem, const MomentSeconds& seconds, const StepPlan& plan);
  ~DryRun();

  /// The next iteration. Errors: those of the mover.
  Result<StepEstimate> step();

  /// What a tier's pool did.
  struct PoolUse {
    std::uint64_t peak_taken_bytes = 0, peak_in_use_bytes = 0;
    std::uint64_t fresh_bytes = 0,
                  exchanged_bytes = 0;  ///< in the last step taken anew, and made of blocks of other sizes
  };
  PoolUse pool_use(Tier tier) const;

 private:
  struct World;
  std::unique_ptr<World> world_;
};

/// The step that repeats: iterations of a DryRun until two in a row differ by less than 1 %, at most four. Cost: some 5 µs a
/// move and iteration. Errors: those of the mover.
Result<StepEstimate> dry_run(const MoveProblem& problem, const MomentSeconds& seconds, const StepPlan& plan);

}  // namespace castor

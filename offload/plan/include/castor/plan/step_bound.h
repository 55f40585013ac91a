// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include <castor/plan/access_trace.h>
#include <castor/plan/step_plan.h>

namespace castor {

/// Compute seconds of an iteration, by pass.
struct PassSeconds {
  double forward = 0;           ///< of units, until the first unit runs backward
  double backward = 0;          ///< of units after that, with those that are recomputed
  double update_on_device = 0;  ///< of updates by the thread, or on its stream
  double update_beside = 0;     ///< of updates beside the thread
  double update_after_norm = 0;  ///< of update_beside, the part after the first norm
  bool measures_norm = false;

  /// True where at least half of the updates beside the thread wait for the norm.
  bool wait_for_norm() const { return measures_norm && 2 * update_after_norm >= update_beside; }
};

/// Requires: `seconds` of all moments of `trace`.
PassSeconds pass_seconds(const AccessTrace& trace, const MomentSeconds& seconds);

/// The least time of a step, and the busiest lane, which determines it.
struct StepBound {
  double seconds = 0;
  const char* by = "compute";  ///< or host_update, a link, or nvme: the drive, in both directions
};

/// max(C, W, C_backward + W_norm, L) + t, with the compute time C, the time W of updates beside it, W_norm that of the
/// updates that wait for a norm, and the time L of the busiest link. The last gradients of a step are those of the
/// weights that the next step uses first: t is the time to copy them down, to update, and to copy the weights up again,
/// for one tile where there are several. t is 0 where these weights are not updated on the host.
///
/// `trace` is an iteration that ran by `plan`, with chunks of `n_bytes`. Requires: `seconds` of all its moments.
StepBound step_bound(const AccessTrace& trace, const MomentSeconds& seconds, const StepPlan& plan,
                     const IndexedVector<ChunkId, std::uint64_t>& n_bytes, const LinkCosts& costs);

}  // namespace castor

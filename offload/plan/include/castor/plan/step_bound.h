// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include <castor/plan/access_trace.h>
#include <castor/plan/step_plan.h>

namespace castor {

/// Seconds of an iteration's computing.
struct PassSeconds {
  double forward = 0;           ///< until the first unit goes backward
  double backward = 0;          ///< from then on, recomputed units with it
  double update_on_device = 0;  ///< by the thread, or on its stream
  double update_beside = 0;
  double update_after_norm = 0;  ///< of those beside, what begins when backward has ended
  bool measures_norm = false;

  /// Most updates wait for the norm, those beside the thread and all others.
  bool wait_for_norm() const { return measures_norm && 2 * update_after_norm >= update_beside; }
};

/// Requires: `seconds` of all moments of `trace`.
PassSeconds pass_seconds(const AccessTrace& trace, const MomentSeconds& seconds);

/// How long the step takes at least, of which what is named `by` takes most.
struct StepBound {
  double seconds = 0;
  const char* by = "compute";  ///< or host_update, a link, or nvme: the drive, both ways
};

/// With C what computes, W what is updated beside it, W_norm those of it that wait for a norm, and L the busiest link:
/// max(C, W, C_backward + W_norm, L) + t. The last gradients of a step are those of the weights that the next one uses
/// first: t is what they take down, to be updated, and what the weights take up again; a tile of them, where there are
/// several. Nothing where these are not updated on the host.
///
/// `trace` has run as `plan` says, with chunks of `n_bytes`. Requires: `seconds` of all its moments.
StepBound step_bound(const AccessTrace& trace, const MomentSeconds& seconds, const StepPlan& plan,
                     std::span<const std::uint64_t> n_bytes, const LinkCosts& costs);

}  // namespace castor

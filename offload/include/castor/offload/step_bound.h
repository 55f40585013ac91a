// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include <castor/offload/access_trace.h>
#include <castor/offload/step_model.h>

namespace castor {

/// Seconds of an iteration's computing.
struct PassSeconds {
  double forward = 0;           ///< until the first unit goes backward
  double backward = 0;          ///< from then on, recomputed units with it
  double update_on_device = 0;  ///< by the thread, or on its stream
  double update_beside = 0;
  bool waits_for_norm = false;  ///< no update begins before backward has ended
};

/// Requires: `seconds` of all moments of `trace`.
PassSeconds pass_seconds(const AccessTrace& trace, const MomentSeconds& seconds);

/// How long the step takes at least, of which what is named `by` takes most.
struct StepBound {
  double seconds = 0;
  const char* by = "compute";  ///< or host_update, a link, or nvme: the drive, both ways
};

/// With C what computes, W what is updated beside it and L the busiest link: max(C, W, L) + t, or where updates wait for a norm
/// max(C_backward + max(W, C_forward), L) + t. The last gradients of a step are those of the weights that the next one uses
/// first: t is what they take down, to be updated, and what the weights take up again; a tile of them, where there are
/// several. Nothing where these are not updated on the host.
///
/// `trace` has run as `plan` says, with chunks of `n_bytes`. Requires: `seconds` of all its moments.
StepBound step_bound(const AccessTrace& trace, const MomentSeconds& seconds, const StepPlan& plan,
                     std::span<const std::uint64_t> n_bytes, const LinkCosts& costs);

}  // namespace castor

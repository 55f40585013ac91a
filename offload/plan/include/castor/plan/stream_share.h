// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/plan/access_trace.h>
#include <castor/plan/step_plan.h>

namespace castor {

/// What the updates of one iteration may take, and what the links carry beside them, where no states are streamed. Seconds.
struct UpdateLoad {
  double host_s = 0;          ///< the team updates
  double window_s = 0;        ///< something else takes that long meanwhile, whatever updates do
  double h2d_s = 0;           ///< the link carries weights meanwhile
  double d2h_s = 0;           ///< … and gradients
  double stream_h2d_s = 0;    ///< all states of the team, if they came up
  double stream_d2h_s = 0;    ///< … and went down
  double streams_from_s = 0;  ///< they do not before that, where the team does not wait for a norm, and they do
};

/// Of an iteration that has run so, or is planned so. Where most updates wait for a norm they have the forward pass alone to hide behind,
/// and of what the links carry the half, since both passes need the same weights; else all of it. `state_bytes`: of the states that
/// are updated on the host. Requires: `seconds` of all moments.
UpdateLoad update_load(const AccessTrace& trace, const MomentSeconds& seconds, const StepEstimate& estimate,
                       const LinkCosts& costs, std::uint64_t state_bytes);

/// What a byte of streamed states takes on the bus beside updates on the host, of what it takes alone; one H200.
inline constexpr double kStreamedByteSlowdown = 55.0 / 41;

/// What an update on the host takes while `share` of the states are streamed beside it, of what it takes alone. Requires: a
/// share below 1.
double host_update_slowdown(double share);

/// The share of the states to stream with which the slowest of team, links and all else is done first; 0 where that saves
/// less than a tenth of it. A byte that crosses the bus slows the team down, for both share the host's memory. Where iterations
/// are known to take `step_s`, a tenth longer than any of these, and the team is busy for half of that: the share with which all
/// is updated first.
double stream_share(const UpdateLoad& load, double step_s = 0);

}  // namespace castor

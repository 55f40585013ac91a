// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/plan/access_trace.h>
#include <castor/plan/step_plan.h>

namespace castor {

/// Seconds of the updates of one iteration without streamed states, and of the work beside them.
struct UpdateLoad {
  double host_s = 0;          ///< the team's updates
  double window_s = 0;        ///< other work at the same time, which takes as long under every share
  double h2d_s = 0;           ///< weights on the link up meanwhile
  double d2h_s = 0;           ///< gradients on the link down meanwhile
  double stream_h2d_s = 0;    ///< all states of the team on the link up, if all were streamed
  double stream_d2h_s = 0;    ///< the same on the link down
  double streams_from_s = 0;  ///< streams start then: they wait for the norm where most of the team's updates do not
};

/// The load of an iteration that ran, or is planned, by `estimate`. Where most updates wait for a norm, only the
/// forward pass hides them, and only half of the links' bytes move meanwhile, since both passes need the same weights;
/// otherwise both passes hide them, and all bytes count. `state_bytes` are those of the states that are updated on the
/// host.
/// Requires: `seconds` of all moments.
UpdateLoad update_load(const AccessTrace& trace, const MomentSeconds& seconds, const StepEstimate& estimate,
                       const LinkCosts& costs, std::uint64_t state_bytes);

// Host and bus share the host's memory: what copies and updates cost one another beside three H200s (docs/planning.md).

/// Bytes of its own that the team loses for a byte that is copied from the host's memory, or to it.
inline constexpr double kLostPerByteUp = 0.5, kLostPerByteDown = 0.9;
/// Time of a copy from the host's memory beside updates on the host, over its time alone. One to it takes no longer.
inline constexpr double kCopyUpSlowdown = 1.4;
/// Time of a copy from the host's memory beside one to it, over its time without.
inline constexpr double kCopyUpBesideDown = 1.25;

/// The share of the states to stream with which the slowest of team, links and other work ends first; 0 where that
/// saves less than a tenth of its time. A byte on the bus slows the team down, because both share the host's memory.
/// Where the team is busy for half of an iteration of `step_s` or more, it is in the way of everything else: then the
/// share with which the updates end first, if that is a tenth sooner. 0 seconds: not known.
double stream_share(const UpdateLoad& load, double step_s = 0);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
// How tests make a mover and its scheduler over small tiers, and look at traces and plans.
#pragma once

#include <castor/schedule/scheduler.h>

#include "tiers.h"

namespace castor {

inline StatefulTensorMgr::Parts mover_parts(Tiers& tiers, Stream& compute) {
  return {.chunks = tiers.chunks,
          .device = tiers.device_budget,
          .host = tiers.host_budget,
          .compute = compute,
          .timeline = tiers.timeline};
}
inline StatefulTensorMgr::Parts mover_parts(Tiers& tiers) { return mover_parts(tiers, *tiers.compute); }

inline Scheduler::Parts scheduler_parts(StatefulTensorMgr& mover, Tiers& tiers, Stream& compute,
                                        const LinkCosts& costs = kUsualLinkCosts) {
  return {.mover = mover,
          .chunks = tiers.chunks,
          .device = tiers.device_budget,
          .host = tiers.host_budget,
          .compute = compute,
          .timeline = tiers.timeline,
          .costs = costs};
}
inline Scheduler::Parts scheduler_parts(StatefulTensorMgr& mover, Tiers& tiers) {
  return scheduler_parts(mover, tiers, *tiers.compute);
}

/// The plan in force, after one that is due has been made; null where there is none.
inline const StepPlan* plan_of(Scheduler& scheduler) {
  (void)scheduler.advance_plan();
  return scheduler.plan();
}

/// The trace with all times that can be known.
inline const AccessTrace& trace_of(Scheduler& scheduler) {
  scheduler.settle_times().value();
  return scheduler.trace();
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/chunk/link_bytes.h>
#include <castor/plan/link_costs.h>

namespace castor {

/// The duration of a step, and the resource that limits it.
struct StepEstimate {
  double step_s = 0;
  double compute_s = 0;  ///< without waits
  double beside_s = 0;   ///< of the team that updates, beside compute_s
  double wait_s = 0;     ///< the compute lane stands still for data, or for an update
  LinkBytes moved;       ///< by the plan, and gradients that arrive whatever the plan
  LinkSeconds link_s{};  ///< busy
  /// `compute`, `host_update` (beside it), the link that is busiest, or `nvme`: the drive, reading and writing.
  std::string bound_by;
  double bound_s = 0;  ///< how long that lane is busy: no order of moves makes the step shorter

  /// Sets link_s, bound_by and bound_s from `moved`, from beside_s, and from `busy_s`, the time of the lane that
  /// computes.
  void find_bound(const LinkCosts& costs, double busy_s);
};

}  // namespace castor

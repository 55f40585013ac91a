// SPDX-License-Identifier: Apache-2.0
#include <castor/plan/step_plan.h>

#include <castor/memory/timeline.h>

namespace castor {

void StepEstimate::find_bound(const LinkCosts& costs, double busy_s) {
  link_s = seconds_of(moved, costs);
  bound_s = busy_s;
  bound_by = "compute";
  if (beside_s > bound_s) bound_s = beside_s, bound_by = name(Lane::host_update);
  for (std::size_t link = 0; link < kLinkNames.size(); ++link)
    if (link_s[link] > bound_s) bound_s = link_s[link], bound_by = kLinkNames[link];
  const double drive_s = costs.nvme_share * (link_s[kNvmeRead] + link_s[kNvmeWrite]);
  if (drive_s > bound_s) bound_s = drive_s, bound_by = "nvme";
}

}  // namespace castor

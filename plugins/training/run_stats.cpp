// SPDX-License-Identifier: Apache-2.0
#include <castor/training/run_stats.h>

#include <castor/plan/links.h>

namespace castor {

const char* name(Link link) { return kLinkNames[index(link)]; }

RunStats run_stats(const castor_stats& stats) {
  RunStats found;
  for (std::size_t tier = 0; tier < kNTiers; ++tier) {
    found.used_bytes[tier] = stats.used_bytes[tier];
    found.peak_bytes[tier] = stats.peak_bytes[tier];
    if (stats.budget_bytes[tier] != UINT64_MAX) found.budget_bytes[tier] = stats.budget_bytes[tier];
  }
  found.moved_bytes = {stats.h2d_bytes, stats.d2h_bytes, stats.nvme_read_bytes, stats.nvme_write_bytes};
  found.wait_seconds = stats.wait_seconds;
  found.update_seconds = stats.update_seconds;
  if (stats.bound_by != nullptr) found.bound = {stats.bound_seconds, stats.bound_by};
  return found;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "engine_stats.h"

namespace castor {

castor_stats stats_of(const EngineRooms& rooms) {
  castor_stats stats{};
  stats.struct_size = sizeof stats;
  EngineMemory& memory = *rooms.memory;
  const Budget* budgets[] = {&memory.device_chunks(), &memory.host_budget(), &memory.nvme_budget()};
  for (std::size_t tier = 0; tier < kNTiers; ++tier) {
    stats.used_bytes[tier] = budgets[tier]->used_bytes();
    stats.peak_bytes[tier] = budgets[tier]->peak_bytes();
    stats.budget_bytes[tier] = budgets[tier]->limit_bytes();
  }
  stats.budget_bytes[index(Tier::device)] = rooms.options.device_budget_bytes;
  if (memory.on_gpu()) {
    stats.used_bytes[index(Tier::device)] = rooms.watch.held_bytes();
    stats.peak_bytes[index(Tier::device)] = rooms.watch.reserved_peak_bytes();
  }
  const LinkBytes& moved = rooms.chunks->moved();
  stats.h2d_bytes = moved.h2d;
  stats.d2h_bytes = moved.d2h;
  stats.nvme_read_bytes = moved.nvme_read;
  stats.nvme_write_bytes = moved.nvme_write;
  stats.wait_seconds = rooms.mover->wait_seconds();
  stats.update_seconds = rooms.update_seconds;
  if (const auto bound = rooms.scheduler->bound()) {
    stats.bound_seconds = bound->seconds;
    stats.bound_by = bound->by;
  }
  return stats;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
// Moves that can be computed by hand.
#pragma once

#include <cstdint>
#include <vector>

#include <castor/memory/budget.h>
#include <castor/plan/move_planner.h>

#include "naive_moves.h"

namespace castor::test {

/// Links of 1 s a byte up and down, NVMe of 2 s to read and 4 s to write.
inline MoveProblem problem_with_room(std::uint32_t n_moments, std::uint64_t device_bytes, std::uint64_t host_bytes) {
  MoveProblem problem;
  problem.n_moments = n_moments;
  problem.room_bytes = {std::vector<std::uint64_t>(n_moments, device_bytes),
                        std::vector<std::uint64_t>(n_moments, host_bytes)};
  problem.costs = {1, 1, 2, 4};
  return problem;
}

/// Chunks of 10 bytes, one a moment, each read on the device once.
inline MoveProblem round_robin(std::uint32_t n, std::uint64_t device_bytes) {
  MoveProblem problem = problem_with_room(n, device_bytes, Budget::kUnlimited);
  for (std::uint32_t i = 0; i < n; ++i) problem.chunks.push_back({10, {{i, Tier::device, Access::read}}});
  return problem;
}

/// Every chunk is dropped from the device after its use and stays on the host.
inline MovePlan all_go(const MoveProblem& problem) {
  MovePlan plan;
  for (const PlannedChunk& chunk : problem.chunks)
    plan.stays.push_back(std::vector<Stay>(chunk.uses.size(), Stay{kOnDevice | kOnHost, kOnHost, kOnHost}));
  return plan;
}

}  // namespace castor::test

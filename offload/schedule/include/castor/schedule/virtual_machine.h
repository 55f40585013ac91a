// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/chunk/chunk_manager.h>
#include <castor/memory/timeline.h>
#include <castor/mover/stateful_tensor_mgr.h>
#include <castor/plan/links.h>
#include <castor/schedule/scheduler.h>
#include <castor/schedule/virtual_links.h>
#include <castor/schedule/virtual_memory.h>

namespace castor {

/// The real chunk manager, mover and scheduler over links and tiers of virtual time, whose chunks are addresses alone.
struct VirtualMachine {
  struct Limits {
    std::uint64_t device_bytes = Budget::kUnlimited, host_bytes = Budget::kUnlimited;
    bool nvme = true;  ///< there is a drive below the host
  };

  VirtualMachine(const LinkCosts& of_links, const Limits& most) : costs(of_links), limits(most) {}

  const LinkCosts costs;
  const Limits limits;
  VirtualClock clock;
  Timeline timeline{{}, [this] { return clock.now_ns(); }};
  VirtualStream compute{clock, 0}, up{clock, costs.h2d}, down{clock, costs.d2h};
  VirtualDrive drive{clock, costs};
  VirtualTier device{Tier::device, limits.device_bytes}, host{Tier::host, limits.host_bytes};
  ChunkManager chunks{{.device = device.pool,
                       .host = host.pool,
                       .spill = limits.nvme ? &drive : nullptr,
                       .compute = compute,
                       .up = up,
                       .down = down,
                       .timeline = timeline}};
  StatefulTensorMgr mover{{.chunks = chunks,
                           .device = device.budget,
                           .host = host.budget,
                           .compute = compute,
                           .timeline = timeline}};
  Scheduler scheduler{{.mover = mover,
                       .chunks = chunks,
                       .device = device.budget,
                       .host = host.budget,
                       .compute = compute,
                       .timeline = timeline,
                       .costs = costs}};
};

}  // namespace castor

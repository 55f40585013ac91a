// SPDX-License-Identifier: Apache-2.0
// Three small tiers on the host, put together as the gemini plugin does, for tests of the code that moves chunks.
#pragma once

#include <castor/chunk/chunk_manager.h>
#include <castor/memory/device.h>
#include <castor/memory/limited_resource.h>
#include <castor/memory/pool_resource.h>

#include <atomic>
#include <memory>
#include <utility>

#include "memory_spill_store.h"

namespace castor {

struct Tiers {
  explicit Tiers(std::uint64_t device_bytes = Budget::kUnlimited, std::uint64_t host_bytes = Budget::kUnlimited,
                 bool with_spill = true, std::unique_ptr<Device> where = make_cpu_device(),
                 SpillStore* other_spill = nullptr)
      : device(std::move(where)),
        device_budget(Tier::device, device_bytes),
        host_budget(Tier::host, host_bytes),
        limited_device(device->device_memory(), device_budget),
        limited_host(device->host_memory(), host_budget),
        pooled_device(limited_device),
        pooled_host(limited_host),
        compute(device->wrap_compute_stream(nullptr)),
        up(device->make_stream().value()),
        down(device->make_stream().value()),
        chunks({.device = pooled_device,
                .host = pooled_host,
                .spill = other_spill != nullptr ? other_spill : own_spill(with_spill),
                .compute = *compute,
                .up = *up,
                .down = *down,
                .timeline = timeline}) {}

  SpillStore* own_spill(bool with_spill) { return with_spill ? &spill : nullptr; }

  const std::unique_ptr<Device> device;
  Budget device_budget, host_budget;
  LimitedResource limited_device, limited_host;
  PoolResource pooled_device, pooled_host;
  MemorySpillStore spill;
  std::atomic<std::uint64_t> now_ns = 0;  ///< of a clock that every reading advances, so that runs of one thread repeat
  Timeline timeline{{}, [this] { return now_ns += 1000; }};
  std::unique_ptr<Stream> compute, up, down;
  ChunkManager chunks;
};

/// Waits until a chunk that leaves `tier` has freed bytes; returns them, or 0 where none leaves.
inline Result<std::uint64_t> reap_one(ChunkManager& chunks, Tier tier) {
  while (true) {
    auto freed = chunks.reap(tier);
    if (!freed.ok() || freed.value() > 0) return freed;
    if (!chunks.memory().wait_for_leaving(tier, std::chrono::seconds(1))) return freed;
  }
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <castor/engine/machine.h>
#include <castor/memory/bytes.h>

#include "fake_allocator.h"
#include "fake_gpu.h"
#include "fake_model_host.h"
#include "inline_team.h"
#include "manual_clock.h"

namespace castor::test {

/// A machine with a fake GPU, a manual clock and a team without threads, so that a run repeats to the last decision.
struct GpuRig {
  static constexpr DLDevice kWhere = {kDLCUDA, 0};

  explicit GpuRig(std::uint64_t total_bytes = 4 * kGiB) : allocator(total_bytes) {}

  /// Borrows this.
  Machine machine() {
    Machine machine;
    machine.make_device = [this](DLDevice) -> Result<std::unique_ptr<Device>> {
      return make_fake_gpu({allocator, clock, others_bytes, failing_copy, host_memory, pages ? &*pages : nullptr});
    };
    machine.link_costs = [](Device&, const EngineOptions&) { return kUsualLinkCosts; };
    machine.open_store = [](const TensorStoreOptions& options) { return TensorStore::open(options); };
    machine.make_team = [this](unsigned, unsigned) -> Result<std::unique_ptr<HostTeam>> {
      return std::unique_ptr<HostTeam>(std::make_unique<InlineTeam>(team));
    };
    machine.make_planner = make_planner;
    machine.make_pinner = make_pinner;
    machine.pin_patience = pin_patience;
    machine.available_host = [] { return LimitedBytes{64 * kGiB, ""}; };
    machine.now_ns = [this] { return clock.now_ns(); };
    return machine;
  }

  FakeAllocator allocator;
  ManualClock clock;
  InlineTeam::Record team;
  std::uint64_t others_bytes = 0;
  NthCall* failing_copy = nullptr;
  MemoryResource* host_memory = nullptr;
  std::optional<FakePages> pages;                          ///< of which slots are made
  decltype(Machine::make_planner) make_planner = nullptr;  ///< null: plans are made at once
  decltype(Machine::make_pinner) make_pinner = nullptr;    ///< null: memory is taken when it is used
  std::chrono::nanoseconds pin_patience{0};
};

}  // namespace castor::test

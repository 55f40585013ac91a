// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <chrono>
#include <functional>
#include <memory>

#include <castor/chunk/spill_store.h>
#include <castor/engine/engine_options.h>
#include <castor/io/tensor_store.h>
#include <castor/memory/device.h>
#include <castor/memory/host_memory.h>
#include <castor/memory/host_team.h>
#include <castor/plan/links.h>
#include <castor/plugins/abi.h>
#include <castor/schedule/planner.h>

namespace castor {

/// The parts of a machine that an engine asks for. Tests replace them by doubles.
struct Machine {
  /// The device that a host table names. Errors: those of make_cuda_device.
  std::function<Result<std::unique_ptr<Device>>(DLDevice)> make_device;
  /// The measured rates of the device's links and of the drives in the options' folders.
  std::function<LinkCosts(Device&, const EngineOptions&)> link_costs;
  /// The store in the options' folders. Errors: those of TensorStore::open.
  std::function<Result<std::unique_ptr<TensorStore>>(const TensorStoreOptions&)> open_store;
  /// Where set: a drive below the host in place of a store, whether the options name folders or not. It counts its bytes
  /// in the budget.
  std::function<std::unique_ptr<SpillStore>(Budget&)> make_drive;
  /// Threads that update on the host (make_host_team).
  std::function<Result<std::unique_ptr<HostTeam>>(unsigned n_threads, unsigned n_spared_cpus)> make_team;
  /// Where set: makes plans while others are carried out. Otherwise they are made at once.
  std::function<std::unique_ptr<Planner>(const Device&)> make_planner;
  /// Where set, and not null: takes host memory for speculative updates beside the steps. Otherwise it is taken when
  /// the first of them begin.
  std::function<std::unique_ptr<Planner>(const Device&)> make_pinner;
  /// How long the second step waits for that memory: a run that settles at once has one slow step at its start, not
  /// many that are slow a little, because pinning and updates share the host's memory. Later steps do not wait.
  std::chrono::nanoseconds pin_patience{0};
  /// The host memory that the process can take now.
  std::function<LimitedBytes()> available_host;
  /// Nanoseconds of a clock that never goes back.
  std::function<std::uint64_t()> now_ns;
};

/// The machine that this process runs on.
Machine this_machine();

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/engine/machine.h>

#include <system_error>
#include <utility>

#include <castor/io/store_rates.h>
#include <castor/memory/clock.h>
#include <castor/memory/host_memory.h>
#include <castor/memory/link_rates.h>

namespace castor {
namespace {

Result<std::unique_ptr<Device>> make_device(DLDevice where) {
  if (where.device_type == kDLCPU) return make_cpu_device();
  return make_cuda_device(where.device_id);
}

LinkCosts link_costs(Device& device, const EngineOptions& options) {
  LinkCosts costs = kUsualLinkCosts;
  if (device.kind() != DeviceKind::cuda) return costs;
  if (const auto rates = calibrate_links(device); rates.ok()) {
    costs.h2d = 1 / rates->h2d;
    costs.d2h = 1 / rates->d2h;
  }
  if (options.nvme_folders.empty()) return costs;
  Budget budget(Tier::nvme, options.nvme_budget_bytes);
  TensorStoreOptions store;
  store.folders = options.nvme_folders;
  store.budget = &budget;
  if (const auto rates = calibrate_store(store); rates.ok()) {
    costs.nvme_read = 1 / rates->read;
    costs.nvme_write = 1 / rates->write;
    costs.nvme_share = rates->share();
  }
  return costs;
}

/// Null where the system gives none.
std::unique_ptr<Planner> make_thread() {
  try {
    return std::make_unique<PlannerThread>();
  } catch (const std::system_error&) {
    return nullptr;
  }
}

/// Beside a GPU the host has a thread to spare for plans. A device that is the host has not: the thread would slow the
/// model down as long as the plan takes, and runs would not repeat to the last decision.
std::unique_ptr<Planner> make_planner(const Device& device) {
  auto thread = device.kind() == DeviceKind::cuda ? make_thread() : nullptr;
  return thread ? std::move(thread) : std::make_unique<InlinePlanner>();
}

/// Memory is pinned for a GPU alone.
std::unique_ptr<Planner> make_pinner(const Device& device) {
  return device.kind() == DeviceKind::cuda ? make_thread() : nullptr;
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.make_device = make_device;
  machine.link_costs = link_costs;
  machine.open_store = [](const TensorStoreOptions& options) { return TensorStore::open(options); };
  machine.make_team = make_host_team;
  machine.make_planner = make_planner;
  machine.make_pinner = make_pinner;
  machine.pin_patience = std::chrono::minutes(1);
  machine.available_host = [] { return host_memory().available; };
  machine.now_ns = steady_now_ns;
  return machine;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <castor/io/tensor_store.h>
#include <castor/memory/budget.h>
#include <castor/plan/placement.h>
#include <castor/rules/state_format.h>

namespace castor {

/// The settings of an engine. The defaults are those of the gemini plugin (`castor plugins list`).
struct EngineOptions {
  std::uint64_t device_budget_bytes = Budget::kUnlimited;
  std::uint64_t host_budget_bytes = Budget::kUnlimited;
  std::uint64_t nvme_budget_bytes = Budget::kUnlimited;
  std::vector<std::string> nvme_folders;
  Durability durability = Durability::scratch;  ///< of the store in these folders
  double nvme_offload_fraction = 0;
  PlacementPolicy placement_policy = PlacementPolicy::automatic;
  double offload_param_frac = 0, offload_optim_frac = 0;
  std::optional<double> stream_optim_frac;  ///< none: tried on a GPU
  std::uint64_t const_device_bytes = 0;
  bool accumulate_gradients = false;  ///< steps add up the gradients of several micro-batches, which takes room
  bool offload_activations = false;
  bool overlap_updates = true;
  std::optional<bool> speculative_updates;  ///< none: on a GPU
  StateFormat format;
  unsigned update_threads = 0;             ///< 0 = usable_cpus(), three quarters of them beside a GPU
  std::uint64_t chunk_bytes = 0;           ///< 0 = chosen from the budgets
  std::chrono::nanoseconds io_timeout{0};  ///< after which a wait for data, or a request to a drive, fails; 0 = never
};

}  // namespace castor

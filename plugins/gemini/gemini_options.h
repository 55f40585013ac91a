// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <castor/io/tensor_store.h>
#include <castor/memory/result.h>
#include <castor/plan/planner.h>
#include <castor/rules/state_format.h>
#include <castor/plugins/abi.h>

namespace castor {

/// The plugin's options, read. See kGeminiSchema for their meaning and defaults.
struct GeminiOptions {
  std::uint64_t device_budget_bytes = Budget::kUnlimited;
  std::uint64_t host_budget_bytes = Budget::kUnlimited;
  std::uint64_t nvme_budget_bytes = Budget::kUnlimited;
  std::vector<std::string> nvme_folders;
  Durability durability = Durability::scratch;  ///< of what lies there
  double nvme_offload_fraction = 0;
  PlacementPolicy placement_policy = PlacementPolicy::automatic;
  double offload_param_frac = 0, offload_optim_frac = 0;
  std::optional<double> stream_optim_frac;  ///< none: as rates say
  std::uint64_t const_device_bytes = 0;
  bool offload_activations = false;
  bool overlap_updates = true;
  std::optional<bool> speculative_updates;  ///< none: on a GPU
  StateFormat format;
  unsigned update_threads = 0;    ///< 0 = as many as the process may run on
  std::uint64_t chunk_bytes = 0;  ///< 0 = chosen from the device budget

  /// Errors: usage.
  static Result<GeminiOptions> read(const castor_option_value* values, std::size_t n_values);
};

extern const castor_option kGeminiSchema[];
extern const std::uint32_t kGeminiSchemaSize;

}  // namespace castor

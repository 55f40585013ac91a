// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <castor/memory/budget.h>
#include <castor/memory/result.h>
#include <castor/memory/tier.h>

namespace castor {

/// Where optimizer states may go.
enum class PlacementPolicy : std::uint8_t {
  automatic,  ///< device, host, NVMe, filled in this order
  cpu,        ///< never on the device
  cuda,       ///< always on the device
};

/// `auto`, `cpu` or `cuda`. Errors: usage.
Result<PlacementPolicy> parse_placement_policy(std::string_view text);

/// What one payload chunk and what belongs to it take.
struct ChunkDemand {
  std::uint64_t payload_bytes = 0;
  std::uint64_t gradient_bytes = 0;  ///< 0 for frozen chunks
  std::uint64_t state_bytes = 0;     ///< 0 for frozen chunks
};

/// The unit whose parameters take the most room: they must be on the device together.
struct LargestUnit {
  std::string name;
  std::uint64_t payload_bytes = 0;
};

struct PlacementRequest {
  std::vector<ChunkDemand> chunks;  ///< in the order in which the forward pass needs them
  LargestUnit largest_unit;
  std::uint64_t device_budget_bytes = Budget::kUnlimited;
  std::uint64_t host_budget_bytes = Budget::kUnlimited;
  std::uint64_t non_model_bytes = 0;  ///< what activations and workspaces take of the device budget at their peak
  bool nvme = false;                  ///< there is a tier below the host
  double nvme_fraction = 0;  ///< of the optimizer states, from the end of the model, that goes to NVMe in any case
  PlacementPolicy policy = PlacementPolicy::automatic;
};

/// Where each chunk's optimizer states live; they are updated where they live, those on NVMe in host memory. States at
/// home on the host still go down to NVMe when the host budget is full.
struct Plan {
  std::vector<Tier> states;
  std::uint64_t device_bytes = 0;  ///< model data held on the device for good
  std::uint64_t host_bytes = 0;    ///< the most that can be in use on the host at once, if all of it were to stay
};

/// Decides the homes. Pure.
/// Errors: does_not_fit where the working set alone is larger than a budget, or everything together is and there is no
/// NVMe tier, with the budget that would do.
Result<Plan> plan_placement(const PlacementRequest& request);

}  // namespace castor

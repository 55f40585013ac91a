// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <castor/memory/budget.h>
#include <castor/memory/result.h>
#include <castor/memory/tier.h>
#include <castor/plan/places.h>

namespace castor {

/// Who decides what the device keeps.
enum class PlacementPolicy : std::uint8_t {
  automatic,  ///< the budgets: optimizer states on device, host, NVMe, filled in this order; parameters as planned
  cpu,        ///< optimizer states never on the device; parameters as planned
  cuda,       ///< everything on the device
  shares,     ///< `static`: stated shares of parameters and of optimizer states are kept off the device, the rest on it
  constant,   ///< `const`: as automatic, for a stated number of bytes, whatever activations take
};

/// `auto`, `cpu`, `cuda`, `static` or `const`. Errors: usage.
Result<PlacementPolicy> parse_placement_policy(std::string_view text);

/// What one payload chunk and what belongs to it take.
struct ChunkDemand {
  std::uint64_t payload_bytes = 0;
  std::uint64_t gradient_bytes = 0;  ///< 0 for frozen chunks
  std::uint64_t state_bytes = 0;     ///< 0 for frozen chunks
  std::uint64_t tile_bytes = 0;      ///< the most of them that is updated at once; of frozen chunks first values
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
  std::string device_budget_name = "--device-budget";  ///< what to raise, for error messages
  std::uint64_t host_budget_bytes = Budget::kUnlimited;
  std::uint64_t non_model_bytes = 0;  ///< what activations and workspaces take of the device budget at their peak
  bool nvme = false;                  ///< there is a tier below the host
  double nvme_fraction = 0;  ///< of the optimizer states, from the end of the model, that goes to NVMe in any case
  PlacementPolicy policy = PlacementPolicy::automatic;
  /// Of the states that are not on the device, the share that comes to it for its updates, spread evenly over the model so
  /// that host and bus both work all the while.
  double stream_fraction = 0;
  std::uint64_t speculation_bytes = 0;  ///< of host memory beside all else that speculative updates may take
  std::vector<bool> may_speculate;      ///< by chunk; where it is empty, all; others are streamed first
  /// Shares of the bytes that policy `shares` keeps off the device: of the parameters, spread evenly over the model so
  /// that they come while others compute, and of the optimizer states, from the end of the model.
  double offload_param_fraction = 0, offload_optim_fraction = 0;
};

/// Where each chunk's optimizer states live; they are updated where they live, those on NVMe in host memory, and those that
/// are streamed on the device. States at home on the host still go down to NVMe when the host budget is full.
struct Plan {
  std::vector<Tier> states;
  std::vector<bool> streamed;            ///< by chunk: states at home below the device that come to it for their update
  std::vector<bool> payload_off_device;  ///< by chunk: parameters come to the device for their uses alone
  std::vector<bool> speculative;         ///< by chunk: the host has room for its states and weights twice
  std::uint64_t device_bytes = 0;        ///< model data held on the device for good
  std::uint64_t speculation_bytes = 0;   ///< of the host, what the second ones take
  std::uint64_t host_bytes = 0;  ///< the most that else can be in use on the host at once, if all of it were to stay

  /// Where the states of chunk `i` are updated: device or host.
  Tier update_tier(std::size_t i) const { return states[i] == Tier::device || streamed[i] ? Tier::device : Tier::host; }
};

/// Where states at home on `tier` may be between two updates.
constexpr Places rest_of_states(Tier tier) { return tier == Tier::nvme ? only(Tier::nvme) : kAnywhere; }

/// Decides the homes. Pure.
/// Errors: does_not_fit where the working set alone is larger than a budget, or everything together is and there is no
/// NVMe tier, with the budget that would do.
Result<Plan> plan_placement(const PlacementRequest& request);

/// Beside activations that take `activation_bytes` of the device where that fits, else as if they moved out of the way.
/// Errors: as plan_placement.
Result<Plan> plan_placement_beside(const PlacementRequest& request, std::uint64_t activation_bytes);

}  // namespace castor

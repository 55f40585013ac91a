// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <castor/chunk/ids.h>
#include <castor/memory/budget.h>
#include <castor/memory/result.h>
#include <castor/memory/tier.h>
#include <castor/plan/places.h>

namespace castor {

/// How the optimizer states and parameters that the device keeps are chosen.
enum class PlacementPolicy : std::uint8_t {
  automatic,  ///< by the budgets: optimizer states fill device, host and NVMe in this order; parameters as planned
  cpu,        ///< optimizer states never on the device; parameters as planned
  cuda,       ///< everything on the device
  shares,     ///< `static`: stated shares of parameters and of optimizer states are kept off the device, the rest on it
  constant,   ///< `const`: as automatic, for a stated number of bytes, regardless of activations
};

/// `auto`, `cpu`, `cuda`, `static` or `const`. Errors: usage.
Result<PlacementPolicy> parse_placement_policy(std::string_view text);

/// The bytes of one payload chunk, its gradients and its states.
struct ChunkDemand {
  std::uint64_t payload_bytes = 0;
  std::uint64_t gradient_bytes = 0;  ///< until the update; 0 for frozen chunks
  std::uint64_t state_bytes = 0;     ///< 0 for frozen chunks
  std::uint64_t tile_bytes = 0;      ///< states of the largest tile; for frozen chunks, first values of the largest
  /// Gradients that arrive while those before are added to fp32 sums, which gradient_bytes are then; 0 where none are
  /// added up. Chunks take turns, so this room is needed once.
  std::uint64_t arriving_bytes = 0;
};

/// The unit whose parameters take the most room: all of them must be on the device at once.
struct LargestUnit {
  std::string name;
  std::uint64_t payload_bytes = 0;
};

struct PlacementRequest {
  IndexedVector<PayloadId, ChunkDemand> chunks;  ///< in the order in which the forward pass needs them
  LargestUnit largest_unit;
  std::uint64_t device_budget_bytes = Budget::kUnlimited;
  std::string device_budget_name = "device_budget";  ///< the option that error messages advise to raise
  std::uint64_t host_budget_bytes = Budget::kUnlimited;
  std::uint64_t non_model_bytes = 0;  ///< peak of activations and workspaces, within the device budget
  bool nvme = false;                  ///< there is a tier below the host
  std::uint64_t nvme_budget_bytes = Budget::kUnlimited;
  double nvme_fraction = 0;  ///< share of the states, from the end of the model, that goes to NVMe in any case
  PlacementPolicy policy = PlacementPolicy::automatic;
  /// The share of the states at home below the device that is fetched to it for their updates, spread evenly over the
  /// model so that host and bus both work all the time.
  double stream_fraction = 0;
  std::uint64_t speculation_bytes = 0;  ///< host memory that speculative updates may take, beyond all other uses
  IndexedVector<PayloadId, bool> may_speculate;  ///< empty: all may; the others are streamed first
  /// Shares of the bytes that policy `shares` keeps off the device: of the parameters, spread evenly over the model so
  /// that they are fetched while others compute, and of the optimizer states, from the end of the model.
  double offload_param_fraction = 0, offload_optim_fraction = 0;
};

/// The home tier of each chunk's optimizer states. States are updated at home, those on NVMe in host memory, and those
/// that are streamed on the device. States at home on the host are still evicted to NVMe when the host budget is full.
struct StatePlacement {
  IndexedVector<PayloadId, Tier> states;
  IndexedVector<PayloadId, bool> streamed;  ///< states below the device that are fetched to it for their update
  IndexedVector<PayloadId, bool> payload_off_device;  ///< parameters that are on the device only for their uses
  IndexedVector<PayloadId, bool> speculative;         ///< the host has room for its states and weights twice
  std::uint64_t device_bytes = 0;                     ///< model data held on the device for good
  std::uint64_t speculation_bytes = 0;                ///< host memory of those second states and weights
  std::uint64_t below_bytes = 0;  ///< states and weights that the tiers below the device hold together
  std::uint64_t host_bytes = 0;  ///< the most other bytes in use on the host at once, if everything at home there stays

  /// The tier on which the states of `chunk` are updated: device or host.
  Tier update_tier(PayloadId chunk) const {
    return states[chunk] == Tier::device || streamed[chunk] ? Tier::device : Tier::host;
  }
};

/// The tiers on which states at home on `tier` may stay between two updates.
constexpr Places rest_of_states(Tier tier) { return tier == Tier::nvme ? only(Tier::nvme) : kAnywhere; }

/// Decides the home tiers. Pure.
/// Errors: does_not_fit, with the budget that would suffice, where the working set alone exceeds a budget, or
/// everything together exceeds all of them. usage, where nvme_fraction is set without an NVMe tier.
Result<StatePlacement> plan_placement(const PlacementRequest& request);

/// plan_placement with `activation_bytes` more of non-model data on the device where that fits, else without them, as
/// if these activations were evicted. Errors: as plan_placement.
Result<StatePlacement> plan_placement_beside(const PlacementRequest& request, std::uint64_t activation_bytes);

}  // namespace castor

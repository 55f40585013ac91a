// SPDX-License-Identifier: Apache-2.0
#include <castor/plan/placement.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include <castor/memory/bytes.h>
#include <castor/memory/even_share.h>
#include <castor/memory/shortage.h>

namespace castor {
namespace {

std::uint64_t bytes_of_all(const IndexedVector<PayloadId, ChunkDemand>& chunks, std::uint64_t ChunkDemand::*part) {
  std::uint64_t n_bytes = 0;
  for (const ChunkDemand& chunk : chunks) n_bytes += chunk.*part;
  return n_bytes;
}

/// The room for gradients of the chunks that `counts` is true of, which arrive to be added up.
template <typename Counts>
std::uint64_t arriving_bytes(const PlacementRequest& request, const Counts& counts) {
  std::uint64_t most_bytes = 0;
  for (const PayloadId id : request.chunks.ids())
    if (counts(id)) most_bytes = std::max(most_bytes, request.chunks[id].arriving_bytes);
  return most_bytes;
}

/// The same on `tier`: the device, or the host.
std::uint64_t arriving_bytes(const PlacementRequest& request, const StatePlacement& plan, Tier tier) {
  return arriving_bytes(request,
                        [&](PayloadId id) { return (plan.states[id] == Tier::device) == (tier == Tier::device); });
}

Error device_too_small(const PlacementRequest& request, const std::string& what, std::uint64_t needed_bytes,
                       const std::string& other_way = "") {
  return does_not_fit({Tier::device, needed_bytes, request.device_budget_bytes},
                      "device tier: " + what + ", the budget is " + format_bytes(request.device_budget_bytes) +
                          "; raise `" + request.device_budget_name + "` to " + format_bytes_up(needed_bytes) +
                          other_way,
                      request.device_budget_name);
}

/// The weights of the largest unit must fit on the device together, beside the activations.
Result<void> check_device(const PlacementRequest& request) {
  const std::uint64_t needed_bytes = request.largest_unit.payload_bytes + request.non_model_bytes;
  if (needed_bytes <= request.device_budget_bytes) return {};
  const std::string activations = request.non_model_bytes == 0 ? ""
                                                               : " beside " + format_bytes(request.non_model_bytes) +
                                                                     " of activations and workspaces";
  return device_too_small(request,
                          "unit " + request.largest_unit.name + " needs " +
                              format_bytes(request.largest_unit.payload_bytes) + " of parameters at once" + activations,
                          needed_bytes);
}

/// Chooses the parameters that policy `shares` keeps off the device.
void send_parameters_away(const PlacementRequest& request, StatePlacement& plan) {
  plan.payload_off_device.assign(request.chunks.size(), false);
  if (request.policy != PlacementPolicy::shares) return;
  EvenShare sent(request.offload_param_fraction);
  for (const PayloadId id : request.chunks.ids())
    plan.payload_off_device[id] = sent.take(static_cast<double>(request.chunks[id].payload_bytes));
}

/// Bytes of the parameters that stay on the device, and of the room for those that are fetched for their uses.
std::uint64_t payload_bytes_on_device(const PlacementRequest& request, const StatePlacement& plan) {
  std::uint64_t kept_bytes = 0;
  for (const PayloadId id : request.chunks.ids())
    kept_bytes += plan.payload_off_device[id] ? 0 : request.chunks[id].payload_bytes;
  const std::uint64_t all_bytes = bytes_of_all(request.chunks, &ChunkDemand::payload_bytes);
  return std::min(all_bytes, kept_bytes + (kept_bytes < all_bytes ? request.largest_unit.payload_bytes : 0));
}

/// Keeps the states of policy `shares` on the device: all but a share from the end of the model.
Result<void> keep_share_on_device(const PlacementRequest& request, StatePlacement& plan) {
  const auto all_bytes = static_cast<double>(bytes_of_all(request.chunks, &ChunkDemand::state_bytes));
  double kept_bytes = 0;
  for (const PayloadId id : request.chunks.ids()) {
    const ChunkDemand& chunk = request.chunks[id];
    kept_bytes += static_cast<double>(chunk.state_bytes);
    if (kept_bytes > (1 - request.offload_optim_fraction) * all_bytes + kRoundingBytes) break;
    if (chunk.state_bytes == 0 || plan.states[id] == Tier::nvme) continue;
    plan.states[id] = Tier::device;
    plan.device_bytes += chunk.state_bytes + chunk.gradient_bytes;
  }
  plan.device_bytes += arriving_bytes(request, plan, Tier::device);
  const std::uint64_t needed_bytes =
      payload_bytes_on_device(request, plan) + plan.device_bytes + request.non_model_bytes;
  if (needed_bytes <= request.device_budget_bytes) return {};
  return device_too_small(request, "placement_policy=static keeps " + format_bytes(needed_bytes) + " on the device",
                          needed_bytes, ", offload_optim_frac or offload_param_frac");
}

/// Keeps states and their gradients on the device as far as they fit beside all parameters, in the order of the forward
/// pass. The first need not: nothing hides their update below the device (streamable), so they come before parameters,
/// of which the largest unit's stay, and as much for its successor.
void fill_device(const PlacementRequest& request, StatePlacement& plan) {
  const std::uint64_t payload_bytes = bytes_of_all(request.chunks, &ChunkDemand::payload_bytes);
  const std::uint64_t working_bytes = std::min(payload_bytes, 2 * request.largest_unit.payload_bytes);
  std::uint64_t kept_bytes = 0, arriving_bytes = 0;
  for (const PayloadId id : request.chunks.ids()) {
    const ChunkDemand& chunk = request.chunks[id];
    const std::uint64_t n_bytes = chunk.state_bytes + chunk.gradient_bytes;
    if (n_bytes == 0 || plan.states[id] == Tier::nvme) continue;
    const std::uint64_t with_bytes = kept_bytes + n_bytes + std::max(arriving_bytes, chunk.arriving_bytes);
    const std::uint64_t others_bytes = request.non_model_bytes + (kept_bytes == 0 ? working_bytes : payload_bytes);
    if (with_bytes > saturating_sub(request.device_budget_bytes, others_bytes)) break;
    kept_bytes += n_bytes;
    arriving_bytes = std::max(arriving_bytes, chunk.arriving_bytes);
    plan.states[id] = Tier::device;
  }
  plan.device_bytes += kept_bytes + arriving_bytes;
}

Result<void> place_on_device(const PlacementRequest& request, StatePlacement& plan) {
  if (request.policy == PlacementPolicy::shares) return keep_share_on_device(request, plan);
  if (request.policy != PlacementPolicy::cpu) fill_device(request, plan);
  return {};
}

void place_on_nvme(const PlacementRequest& request, StatePlacement& plan) {
  const double wanted_bytes =
      request.nvme_fraction * static_cast<double>(bytes_of_all(request.chunks, &ChunkDemand::state_bytes));
  double placed_bytes = 0;
  for (const PayloadId id : request.chunks.ids().backward()) {
    if (placed_bytes >= wanted_bytes) break;
    if (request.chunks[id].state_bytes == 0) continue;
    plan.states[id] = Tier::nvme;
    placed_bytes += static_cast<double>(request.chunks[id].state_bytes);
  }
}

/// True where the update of a chunk fits on the device beside the largest unit. Even where none are meant to be added
/// up, its gradients may have widened to fp32.
bool fits_streamed(const PlacementRequest& request, const StatePlacement& plan, const ChunkDemand& chunk) {
  const std::uint64_t others_bytes = plan.device_bytes + request.largest_unit.payload_bytes + request.non_model_bytes;
  const std::uint64_t gradients_bytes =
      chunk.gradient_bytes + (chunk.arriving_bytes > 0 ? chunk.arriving_bytes : chunk.gradient_bytes);
  const std::uint64_t needed_bytes = chunk.tile_bytes + gradients_bytes + chunk.payload_bytes;
  return needed_bytes <= saturating_sub(request.device_budget_bytes, others_bytes);
}

bool may_speculate(const PlacementRequest& request, PayloadId id) {
  return request.may_speculate.empty() || request.may_speculate[id];
}

/// The chunks with states below the device, in the order in which they are chosen. First the model's first chunk alone:
/// its gradients are the last to arrive, and the next forward pass begins with it, so nothing hides its update on the
/// host. Chunks whose updates need not wait for a norm are last.
std::array<std::vector<PayloadId>, 3> streamable(const PlacementRequest& request, const StatePlacement& plan) {
  std::array<std::vector<PayloadId>, 3> groups;
  bool is_first = true;
  for (const PayloadId id : request.chunks.ids()) {
    if (request.chunks[id].state_bytes > 0 && plan.states[id] != Tier::device)
      groups.at(is_first ? 0 : may_speculate(request, id) ? 2 : 1).push_back(id);
    is_first = false;
  }
  return groups;
}

/// Chooses the states that are streamed, as far as their updates fit on the device.
void stream_states(const PlacementRequest& request, StatePlacement& plan) {
  plan.streamed.assign(request.chunks.size(), false);
  const auto bytes_of = [&request](std::span<const PayloadId> chunks) {
    double n_bytes = 0;
    for (const PayloadId id : chunks) n_bytes += static_cast<double>(request.chunks[id].state_bytes);
    return n_bytes;
  };
  const auto groups = streamable(request, plan);
  double wanted_bytes = request.stream_fraction * (bytes_of(groups[0]) + bytes_of(groups[1]) + bytes_of(groups[2]));
  for (const auto& group : groups) {
    EvenShare streamed(std::min(1.0, wanted_bytes / std::max(1.0, bytes_of(group))));
    for (const PayloadId id : group)
      plan.streamed[id] = streamed.take(bytes_of({&id, 1}), fits_streamed(request, plan, request.chunks[id]));
    wanted_bytes -= streamed.taken_bytes();
  }
}

bool all_on_device(const PlacementRequest& request, const StatePlacement& plan) {
  for (const PayloadId id : request.chunks.ids())
    if (request.chunks[id].state_bytes > 0 && plan.states[id] != Tier::device) return false;
  return true;
}

Error host_too_small(const PlacementRequest& request, const std::string& what, std::uint64_t needed_bytes,
                     bool nvme_helps) {
  return does_not_fit({Tier::host, needed_bytes, request.host_budget_bytes},
                      "host tier: " + what + " " + format_bytes(needed_bytes) + ", the budget is " +
                          format_bytes(request.host_budget_bytes) + "; raise `host_budget` to " +
                          format_bytes_up(needed_bytes) + (nvme_helps ? " or name a folder with `nvme`" : ""));
}

/// Bytes of the weights that the device can hold beside non-model data and the states that are at home there.
std::uint64_t weights_bytes_on_device(const PlacementRequest& request, const StatePlacement& plan) {
  const std::uint64_t room_bytes =
      saturating_sub(request.device_budget_bytes, request.non_model_bytes + plan.device_bytes);
  return std::min(room_bytes, payload_bytes_on_device(request, plan));
}

std::uint64_t state_bytes_at_home(const PlacementRequest& request, const StatePlacement& plan, Tier tier) {
  std::uint64_t n_bytes = 0;
  for (const PayloadId id : request.chunks.ids())
    if (plan.states[id] == tier) n_bytes += request.chunks[id].state_bytes;
  return n_bytes;
}

/// What has no room on the host has it on NVMe.
Result<void> check_nvme(const PlacementRequest& request, const StatePlacement& plan) {
  const std::uint64_t least_bytes = std::max(state_bytes_at_home(request, plan, Tier::nvme),
                                             saturating_sub(plan.below_bytes, request.host_budget_bytes));
  if (least_bytes <= request.nvme_budget_bytes) return {};
  return does_not_fit({Tier::nvme, plan.below_bytes, request.nvme_budget_bytes},
                      "nvme tier: what the other tiers cannot hold takes " + format_bytes(least_bytes) +
                          " or more, the budget is " + format_bytes(request.nvme_budget_bytes) +
                          "; raise `nvme_budget`, of which " + format_bytes_up(plan.below_bytes) + " do in any case");
}

/// The host must hold the data of one update at a time, and without NVMe everything that is at home there.
Result<void> check_host(const PlacementRequest& request, StatePlacement& plan) {
  std::uint64_t one_update_bytes = 0;
  std::uint64_t beside_bytes = 0;           // of what is kept below the device
  std::uint64_t largest_weights_bytes = 0;  // an update on the host writes the new weights beside the kept bytes
  for (const PayloadId id : request.chunks.ids()) {
    const ChunkDemand& chunk = request.chunks[id];
    // The first values of every chunk are made on the host, also where its home is elsewhere.
    one_update_bytes = std::max({one_update_bytes, chunk.tile_bytes + chunk.gradient_bytes + chunk.payload_bytes,
                                 chunk.gradient_bytes + chunk.arriving_bytes});
    if (plan.states[id] == Tier::device || chunk.state_bytes == 0) continue;
    plan.below_bytes += chunk.state_bytes;
    beside_bytes += chunk.gradient_bytes;
    largest_weights_bytes = std::max(largest_weights_bytes, chunk.payload_bytes);
  }
  if (one_update_bytes > request.host_budget_bytes)
    return host_too_small(request, "updating the largest chunk takes", one_update_bytes, false);
  plan.below_bytes +=
      saturating_sub(bytes_of_all(request.chunks, &ChunkDemand::payload_bytes), weights_bytes_on_device(request, plan));
  beside_bytes += largest_weights_bytes + arriving_bytes(request, plan, Tier::host);
  const std::uint64_t kept_bytes = plan.below_bytes + beside_bytes;
  plan.host_bytes = std::max(kept_bytes, one_update_bytes);
  if (request.nvme) return check_nvme(request, plan);
  if (kept_bytes > request.host_budget_bytes)
    return host_too_small(request, "gradients, optimizer states and the parameters that are not on the device take",
                          kept_bytes, true);
  return {};
}

/// Bytes that a speculative update of the chunk writes beside the old states and weights; 0 where the states are not
/// updated on the host, or the chunk may not speculate.
std::uint64_t speculation_bytes(const PlacementRequest& request, const StatePlacement& plan, PayloadId id) {
  const ChunkDemand& chunk = request.chunks[id];
  const bool on_host = plan.states[id] == Tier::host && plan.update_tier(id) == Tier::host;
  return on_host && may_speculate(request, id) && chunk.state_bytes > 0 ? chunk.state_bytes + chunk.payload_bytes : 0;
}

/// Chooses speculative chunks as far as the host has room beside all other uses, the weights that are being updated
/// included, and states that an iteration without a plan evicts to it: an update that found room in some iterations
/// alone would make each differ from the one before, so that no plan lasts. They are spread evenly over the model, so
/// that updates run all through backward, and the next forward pass does not meet all the other chunks at once.
void leave_room_to_speculate(const PlacementRequest& request, StatePlacement& plan) {
  plan.speculative.assign(request.chunks.size(), false);
  double wanted_bytes = 0;
  for (const PayloadId id : request.chunks.ids())
    wanted_bytes += static_cast<double>(speculation_bytes(request, plan, id));
  const std::uint64_t others_bytes =
      plan.host_bytes + weights_bytes_on_device(request, plan) + state_bytes_at_home(request, plan, Tier::device);
  const auto room_bytes =
      static_cast<double>(std::min(request.speculation_bytes, saturating_sub(request.host_budget_bytes, others_bytes)));
  EvenShare taken(std::min(1.0, room_bytes / std::max(1.0, wanted_bytes)));
  for (const PayloadId id : request.chunks.ids()) {
    const auto n_bytes = static_cast<double>(speculation_bytes(request, plan, id));
    plan.speculative[id] = n_bytes > 0 && taken.take(n_bytes);
  }
  plan.speculation_bytes = static_cast<std::uint64_t>(taken.taken_bytes());
}

/// What the device takes where it keeps all there is.
std::uint64_t bytes_of_everything(const PlacementRequest& request) {
  return request.non_model_bytes + bytes_of_all(request.chunks, &ChunkDemand::payload_bytes) +
         bytes_of_all(request.chunks, &ChunkDemand::gradient_bytes) +
         bytes_of_all(request.chunks, &ChunkDemand::state_bytes) +
         arriving_bytes(request, [](PayloadId) { return true; });
}

}  // namespace

Result<PlacementPolicy> parse_placement_policy(std::string_view text) {
  if (text == "auto") return PlacementPolicy::automatic;
  if (text == "cpu") return PlacementPolicy::cpu;
  if (text == "cuda") return PlacementPolicy::cuda;
  if (text == "static") return PlacementPolicy::shares;
  if (text == "const") return PlacementPolicy::constant;
  return Error{ErrorKind::usage,
               "placement_policy '" + std::string(text) + "' is none of auto, static, cuda, cpu, const"};
}

Result<StatePlacement> plan_placement(const PlacementRequest& request) {
  StatePlacement plan;
  plan.states.assign(request.chunks.size(), Tier::host);
  CASTOR_TRY(check_device(request));
  if (request.nvme_fraction > 0 && !request.nvme)
    return Error{ErrorKind::usage, "nvme_offload_fraction is set, but no folder is named with `nvme`", "nvme"};
  send_parameters_away(request, plan);
  place_on_nvme(request, plan);
  CASTOR_TRY(place_on_device(request, plan));
  stream_states(request, plan);
  CASTOR_TRY(check_host(request, plan));
  leave_room_to_speculate(request, plan);
  if (request.policy == PlacementPolicy::cuda && !all_on_device(request, plan)) {
    const std::uint64_t needed_bytes = bytes_of_everything(request);
    return device_too_small(request,
                            "placement_policy=cuda keeps all of " + format_bytes(needed_bytes) + " on the device",
                            needed_bytes, " or use placement_policy=auto");
  }
  return plan;
}

Result<StatePlacement> plan_placement_beside(const PlacementRequest& request, std::uint64_t activation_bytes) {
  PlacementRequest beside = request;
  beside.non_model_bytes += activation_bytes;
  auto plan = plan_placement(beside);
  return plan.ok() ? std::move(plan) : plan_placement(request);
}

}  // namespace castor

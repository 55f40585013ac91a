// SPDX-License-Identifier: Apache-2.0
#include "placer.h"

#include <algorithm>
#include <utility>

#include <castor/memory/bytes.h>
#include <castor/states/model_chunks.h>
#include <castor/states/tensor_store_spill.h>

namespace castor {
namespace {

/// The values of a payload chunk on NVMe.
constexpr std::uint64_t kValuesOfChunk = 4;
/// Of each value, where they are committed: the last and the next.
constexpr std::uint64_t kSlotsOfCommit = 2;

}  // namespace

Placer::Placer(EngineRooms& rooms) : rooms_(rooms), largest_unit_(rooms.largest_unit()) {}

PlacementRequest Placer::make_request() const {
  const EngineOptions& options = rooms_.options;
  PlacementRequest request;
  request.chunks = demands(options.accumulate_gradients);
  request.largest_unit = largest_unit_;
  request.device_budget_bytes = options.device_budget_bytes;
  request.host_budget_bytes = options.host_budget_bytes;
  request.nvme_budget_bytes = options.nvme_budget_bytes;
  request.nvme = rooms_.memory->spill() != nullptr;
  request.nvme_fraction = options.nvme_offload_fraction;
  request.policy = options.placement_policy;
  request.offload_param_fraction = options.offload_param_frac;
  request.offload_optim_fraction = options.offload_optim_frac;
  request.stream_fraction = options.stream_optim_frac.value_or(0);
  request.speculation_bytes = rooms_.pinner ? 0 : speculation_bytes();
  if (request.policy == PlacementPolicy::constant && options.const_device_bytes < options.device_budget_bytes) {
    request.device_budget_bytes = options.const_device_bytes;
    request.device_budget_name = "const_device_bytes";
  }
  return request;
}

/// Of the host, that speculative updates may take.
std::uint64_t Placer::speculation_bytes() const {
  const EngineOptions& options = rooms_.options;
  const bool speculates = options.speculative_updates.value_or(rooms_.memory->on_gpu()) && options.overlap_updates;
  return speculates ? rooms_.memory->speculation_bytes() : 0;
}

/// The most that may come to lie there.
std::uint64_t Placer::n_bytes_on_nvme(const StatePlacement& placement, std::size_t n_chunks) const {
  const std::uint64_t n_bytes = placement.below_bytes + n_chunks * kValuesOfChunk * TensorStoreSpill::kPaddingBytes;
  return rooms_.options.durability == Durability::commit ? kSlotsOfCommit * n_bytes : n_bytes;
}

IndexedVector<PayloadId, ChunkDemand> Placer::demands(bool adds_up) const {
  return demands_of(rooms_.layout, rooms_.options.format, adds_up ? StepGradients::added_up : StepGradients::one_each);
}

Result<void> Placer::place_first() {
  PlacementRequest request = make_request();
  if (request.policy == PlacementPolicy::constant) {
    give_room(request.device_budget_bytes);
  } else if (rooms_.memory->on_gpu()) {
    // Activations are not measured yet, so only the largest unit's parameters, and those of its successor, may stay; the
    // tiers below must have room for all else.
    request.policy = PlacementPolicy::cpu;
    request.stream_fraction = 0;
    request.device_budget_bytes =
        std::min(request.device_budget_bytes, 2 * request.largest_unit.payload_bytes + kMaxChunkBytes);
    give_room(request.device_budget_bytes);
  }
  auto placed = plan_placement(request);
  if (!placed.ok() && rooms_.measures() && rooms_.options.accumulate_gradients) {
    request.chunks = demands(false);
    placed = plan_placement(request);
    sums_ = Sums::wait;
  }
  CASTOR_ASSIGN(StatePlacement placement, std::move(placed));
  rooms_.memory->expect_on_nvme(n_bytes_on_nvme(placement, request.chunks.size()));
  rooms_.memory->check_host(rooms_.host, placement);
  if (!has_room_for_all_gradients(request)) rooms_.optimizer->expect_one_gradient_each();
  request_ = std::move(request);
  return rooms_.optimizer->adopt(std::move(placement));
}

/// With a sixteenth to spare, for what is in two tiers at a time.
bool Placer::has_room_for_all_gradients(const PlacementRequest& request) {
  std::uint64_t room_bytes = 0, n_bytes = 0;
  for (const std::uint64_t budget_bytes :
       {request.device_budget_bytes, request.host_budget_bytes, request.nvme_budget_bytes}) {
    if (budget_bytes == Budget::kUnlimited) return true;
    room_bytes += budget_bytes;
  }
  for (const ChunkDemand& chunk : request.chunks)
    n_bytes += chunk.payload_bytes + chunk.state_bytes + chunk.gradient_bytes;
  return n_bytes + n_bytes / 16 <= room_bytes;
}

void Placer::give_room(std::uint64_t n_bytes) {
  rooms_.memory->give_chunks(n_bytes, padding_bytes(n_bytes), rooms_.options.device_budget_bytes);
  rooms_.watch.forget_allocators_peak();
}

Result<void> Placer::place_for_sums() {
  if (sums_ != Sums::wait || !rooms_.warming_up) return {};
  CASTOR_TRY(place_beside(rooms_.watch.non_model_peak_so_far_bytes()));
  sums_ = Sums::are_placed;
  return {};
}

Result<void> Placer::repeat_warm_up() {
  return sums_ == Sums::are_placed && rooms_.warming_up ? place_first() : Result<void>();
}

/// Of a room of `n_bytes` for chunks.
std::uint64_t Placer::padding_bytes(std::uint64_t n_bytes) const {
  return castor::padding_bytes(rooms_.slots, rooms_.memory->page_bytes(), n_bytes);
}

Result<void> Placer::place_in_measured_room() { return place_beside(rooms_.watch.non_model_peak_bytes()); }

/// Activations in chunks are given room beside the states where they fit; the plan of moves may still evict them. So
/// are sums of gradients, if the warm-up added any up although the options did not say so.
Result<void> Placer::place_beside(std::uint64_t non_model_bytes) {
  const std::uint64_t budget_bytes = rooms_.options.device_budget_bytes;
  kept_bytes_ = rooms_.activations->peak_bytes();
  std::uint64_t taken_bytes = non_model_bytes + rooms_.slack_bytes(non_model_bytes);
  taken_bytes += padding_bytes(saturating_sub(budget_bytes, taken_bytes));
  give_room(std::max(saturating_sub(budget_bytes, taken_bytes),
                     working_bytes(largest_unit_.payload_bytes, rooms_.activations->largest_bytes())));
  request_ = make_request();
  request_.non_model_bytes = taken_bytes;
  if (rooms_.options.accumulate_gradients || !rooms_.optimizer->gradients().store().adds_up()) return place();
  request_.chunks = demands(true);
  if (place().ok()) return {};
  request_.chunks = demands(false);
  return place();
}

std::function<Result<StatePlacement>(double share)> Placer::placements_by_share() const {
  return [request = request_, kept_bytes = kept_bytes_](double share) {
    PlacementRequest with_share = request;
    with_share.stream_fraction = share;
    return plan_placement_beside(with_share, kept_bytes);
  };
}

Result<StatePlacement> Placer::with_speculation() const {
  PlacementRequest request = request_;
  request.speculation_bytes = speculation_bytes();
  request.may_speculate = {};
  return plan_placement_beside(request, kept_bytes_);
}

Result<void> Placer::place() {
  CASTOR_ASSIGN(StatePlacement placement, plan_placement_beside(request_, kept_bytes_));
  return rooms_.optimizer->adopt(std::move(placement));
}

void Placer::hold_speculation() { request_.may_speculate = rooms_.optimizer->states().placement().speculative; }

void Placer::make_room_for_activation(std::uint64_t n_bytes) {
  const Budget& device = rooms_.memory->device_chunks();
  const std::uint64_t needed_bytes = working_bytes(largest_unit_.payload_bytes, n_bytes);
  if (rooms_.measures() && needed_bytes <= rooms_.options.device_budget_bytes && needed_bytes > device.limit_bytes())
    give_room(needed_bytes);
}

bool Placer::has_room_for_activation(std::uint64_t n_bytes) const {
  return working_bytes(largest_unit_.payload_bytes, n_bytes) <= rooms_.memory->device_chunks().limit_bytes();
}

std::uint64_t Placer::host_state_bytes() const {
  std::uint64_t state_bytes = 0;
  for (const PayloadId chunk : request_.chunks.ids())
    if (rooms_.optimizer->states().placement().update_tier(chunk) == Tier::host)
      state_bytes += request_.chunks[chunk].state_bytes;
  return state_bytes;
}

}  // namespace castor

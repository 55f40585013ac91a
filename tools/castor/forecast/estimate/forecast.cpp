// SPDX-License-Identifier: Apache-2.0
#include "forecast.h"

#include <algorithm>
#include <set>
#include <utility>

#include <castor/states/model_chunks.h>
#include <castor/states/slot_pages.h>
#include <castor/plan/stream_share.h>

#include "iteration.h"
#include "forecast/shapes/model_tensors.h"

namespace castor::estimate {
namespace {

Result<void> check_tokens(const Request& request) {
  const std::uint64_t most = request.model.most_tokens, asked = request.work.seq;
  if (most == 0 || asked <= most) return {};
  return Error{ErrorKind::usage, "a sample of " + std::to_string(asked) +
                                     " tokens was asked for, the model has positions for 1 to " + std::to_string(most)};
}

/// The part of `room_bytes` that is lost to slots of whole pages.
std::uint64_t padding_of(const ChunkLayout& layout, const Request& request, std::uint64_t room_bytes) {
  if (request.device_budget_bytes == Budget::kUnlimited) return 0;
  const auto slots = slot_sizes(layout, request.work.format);
  return padding_bytes(slots, best_pages(slots), room_bytes);
}

/// The request that the plugin makes once it has measured: non-model data, the allocator's slack and padding reduce the
/// device's budget; slack and padding only as far as the data that must be resident at the same time still fits.
PlacementRequest placement_request(const Request& request, const ChunkLayout& layout, std::uint64_t non_model_bytes,
                                   std::uint64_t input_bytes) {
  const std::uint64_t budget_bytes = request.device_budget_bytes;
  PlacementRequest placement;
  placement.chunks = demands_of(layout, request.work.format);
  placement.largest_unit = largest_unit(request.model, layout);
  placement.device_budget_bytes = budget_bytes;
  placement.host_budget_bytes = request.host_budget_bytes;
  placement.nvme = request.nvme;
  placement.nvme_fraction = request.nvme_fraction;
  placement.stream_fraction = request.stream_fraction.value_or(0);
  placement.policy = request.policy;
  const Workload& work = request.work;
  if (work.clip && work.overlap_updates && work.speculative_updates) placement.speculation_bytes = Budget::kUnlimited;
  const std::uint64_t taken_bytes = non_model_bytes + working_bytes(placement.largest_unit.payload_bytes, input_bytes);
  const std::uint64_t spare_bytes = budget_bytes - std::min(budget_bytes, taken_bytes);
  std::uint64_t lost_bytes = allocator_slack_bytes(budget_bytes, non_model_bytes, request.model.layers * input_bytes);
  if (lost_bytes < spare_bytes) lost_bytes += padding_of(layout, request, spare_bytes - lost_bytes);
  placement.non_model_bytes = non_model_bytes + std::min(spare_bytes, lost_bytes);
  return placement;
}

/// How often an update reads or writes each of a chunk's arrays.
struct Touches {
  std::uint64_t states = 0, gradients = 0, weights = 0;
};

/// An update reads and writes the states, reads the gradient and writes the weights, which it also reads if masters are
/// split. Trust ratios before it read gradient and weights once more (LARS), or gradient, states and the split part of
/// the masters (LAMB).
Touches touches_of_update(const Workload& work, bool measured_before) {
  const bool split = work.format.splits(work.precision);
  Touches touches = {2, 1, split ? 2u : 1u};
  if (work.measures_weights) ++touches.gradients, ++touches.weights;
  if (work.measures_direction && !measured_before) ++touches.states, ++touches.gradients, touches.weights += split;
  return touches;
}

/// The states that are measured in a separate round before their update.
std::set<ChunkId> measured_before(const AccessTrace& trace) {
  std::set<ChunkId> measured;
  for (std::uint64_t m = 0; m < trace.n_moments(); ++m)
    if (trace.moment(m).kind == MomentKind::update && trace.needs(m).front().access == Access::read)
      measured.insert(trace.needs(m).front().chunk);
  return measured;
}

/// Bytes that an update touches of the elements whose states `tile` needs. A tile counts as measured in a separate
/// round even if only some of its tensors are.
double bytes_touched(const Need& tile, std::uint64_t tile_bytes, bool measured, const ChunkDemand& chunk,
                     const Workload& work) {
  const bool measures = tile.access == Access::read, split = work.format.splits(work.precision);
  const Touches touches = measures ? Touches{1, 1, split ? 1u : 0u} : touches_of_update(work, measured);
  const auto n_bytes =
      static_cast<double>(touches.states * chunk.state_bytes + touches.gradients * chunk.gradient_bytes +
                          touches.weights * chunk.payload_bytes);
  return n_bytes * static_cast<double>(tile_bytes) / static_cast<double>(chunk.state_bytes);
}

/// The training thread's time to queue work of others counts as zero. Adds the time of the updates to `update_s`.
MomentSeconds moment_seconds(const Request& request, const Rehearsal& step,
                             const IndexedVector<PayloadId, ChunkDemand>& chunks,
                             const StatePlacement& placement, double streamed_share, double& update_s) {
  const std::set<ChunkId> measured = measured_before(step.trace);
  MomentSeconds seconds;
  for (std::uint64_t m = 0; m < step.trace.n_moments(); ++m) {
    const Moment& moment = step.trace.moment(m);
    const auto kind = moment.kind;
    const std::uint32_t id = moment.id;
    bool on_device = true;
    if (of_unit(kind)) {
      const double flops = forward_flops(request.model, UnitId{id}, request.work);
      seconds.compute.push_back((kind == MomentKind::backward ? 2 : 1) * flops / request.rates.flops_per_s);
    } else if (kind == MomentKind::norm) {
      seconds.compute.push_back(0);
    } else {
      on_device = placement.update_tier(PayloadId{id}) == Tier::device;
      const Need& tile = step.trace.needs(m).front();
      const double n_bytes = bytes_touched(tile, step.problem.chunks[tile.chunk].n_bytes, measured.contains(tile.chunk),
                                           chunks[PayloadId{id}], request.work);
      seconds.compute.push_back(on_device ? n_bytes / request.rates.device_update_bytes_per_s
                                          : n_bytes / request.rates.host_update_bytes_per_s *
                                                host_update_slowdown(streamed_share));
      update_s += seconds.compute.back();
    }
    seconds.thread.push_back(on_device || moment.beside ? 0 : seconds.compute.back());
  }
  return seconds;
}

std::uint64_t bytes_of_host_updates(const PlacementRequest& request, const StatePlacement& plan) {
  std::uint64_t n_bytes = 0;
  for (const PayloadId chunk : request.chunks.ids())
    n_bytes += plan.update_tier(chunk) == Tier::host ? request.chunks[chunk].state_bytes : 0;
  return n_bytes;
}

/// The share of the states kept off the device that the device updates.
double streamed_share(const PlacementRequest& request, const StatePlacement& plan) {
  std::uint64_t streamed_bytes = 0;
  for (const PayloadId chunk : request.chunks.ids())
    streamed_bytes += plan.streamed[chunk] ? request.chunks[chunk].state_bytes : 0;
  const std::uint64_t host_bytes = bytes_of_host_updates(request, plan);
  return streamed_bytes == 0 ? 0
                             : static_cast<double>(streamed_bytes) / static_cast<double>(streamed_bytes + host_bytes);
}

/// Streamed states cross the bus while the host updates others, which slows both directions down.
LinkCosts beside_updates(LinkCosts costs, double streamed_share) {
  if (streamed_share == 0 || streamed_share == 1) return costs;
  costs.h2d *= kStreamedByteSlowdown;
  costs.d2h *= kStreamedByteSlowdown;
  return costs;
}

/// Places the states and plans the step for the layout in `made`; returns the load of the updates.
Result<UpdateLoad> plan_placed(const Request& request, const PlacementRequest& placement,
                               const Recomputation& recomputation, Forecast& made) {
  CASTOR_ASSIGN(made.placement, plan_placement_beside(placement, request.model.layers * recomputation.input_bytes));
  const double share = streamed_share(placement, made.placement);
  CASTOR_ASSIGN(Rehearsal step, iteration_of(request.model, made.layout, made.placement, recomputation,
                                             {request.work.clip, request.work.overlap_updates,
                                              request.work.measures_weights, request.work.measures_direction},
                                             request.work.format));
  made.problem = step.problem;
  std::vector<PlannedChunk> used = step.problem.chunks.entries();
  std::erase_if(used, [](const PlannedChunk& chunk) { return chunk.uses.empty(); });
  made.problem.chunks = IndexedVector<ChunkId, PlannedChunk>(std::move(used));  // numbered anew
  made.problem.room_bytes = {
      std::vector<std::uint64_t>(made.problem.n_moments, request.device_budget_bytes - placement.non_model_bytes),
      std::vector<std::uint64_t>(made.problem.n_moments, request.host_budget_bytes - made.placement.speculation_bytes)};
  made.problem.costs = beside_updates(request.rates.links, share);
  made.problem.nvme = request.nvme;
  made.update_s = 0;
  const auto seconds = moment_seconds(request, step, placement.chunks, made.placement, share, made.update_s);
  CASTOR_ASSIGN(made.step, plan_step(made.problem, seconds));
  return update_load(step.trace, seconds, made.step.estimate, request.rates.links,
                     bytes_of_host_updates(placement, made.placement));
}

}  // namespace

Result<Forecast> forecast(const Request& request) {
  CASTOR_TRY(check_tokens(request));
  Forecast made;
  const auto tensors = shapes::tensors_of(request.model, request.work.precision);
  const std::uint64_t chunk_bytes = chunk_bytes_under(tensors, request.device_budget_bytes, request.host_budget_bytes);
  made.layout = plan_layout(tensors, layout_options(tensors, request.work.format, chunk_bytes, request.nvme));
  const Recomputation recomputation = {
      request.work.recompute, request.work.inputs_in_chunks() ? block_input_bytes(request.model, request.work) : 0};
  made.non_model = non_model(request.model, request.work);
  PlacementRequest placement =
      placement_request(request, made.layout, made.non_model.total_bytes(), recomputation.input_bytes);
  CASTOR_ASSIGN(const UpdateLoad load, plan_placed(request, placement, recomputation, made));
  if (request.stream_fraction || !request.work.overlap_updates) return made;
  placement.stream_fraction = stream_share(load);
  if (placement.stream_fraction == 0) return made;
  placement.may_speculate = made.placement.speculative;  // as in training
  Forecast streamed = made;
  CASTOR_TRY(plan_placed(request, placement, recomputation, streamed));
  return streamed.step.estimate.step_s < made.step.estimate.step_s ? std::move(streamed) : std::move(made);
}

}  // namespace castor::estimate

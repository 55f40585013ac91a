// SPDX-License-Identifier: Apache-2.0
#include "engine_rooms.h"

#include <set>
#include <utility>

#include <castor/memory/host_cpus.h>
#include <castor/states/model_chunks.h>

namespace castor {

TeamSize team_size_of(unsigned update_threads, bool on_gpu) {
  const unsigned n_cpus = usable_cpus();
  const unsigned n_left = on_gpu ? n_cpus / 4 : 0, n_spared = on_gpu ? n_cpus / 8 : 0;
  const unsigned n_threads = update_threads > 0 ? update_threads : n_cpus - n_left;
  return {n_threads, n_threads + n_spared <= n_cpus ? n_spared : 0};
}

Result<std::unique_ptr<EngineRooms>> EngineRooms::make(ModelHost& host, const EngineOptions& options,
                                                       const Machine& machine) {
  CASTOR_ASSIGN(ModelShape model, ModelShape::read(host));
  CASTOR_ASSIGN(auto memory, EngineMemory::make(host, options, machine));
  EngineOptions within = options;
  within.device_budget_bytes = memory->within_capacity(host, options.device_budget_bytes);
  std::unique_ptr<EngineRooms> rooms(new EngineRooms(host, within, machine, std::move(model), std::move(memory)));
  CASTOR_TRY(rooms->build());
  return rooms;
}

EngineRooms::EngineRooms(ModelHost& host_table, const EngineOptions& within, const Machine& on, ModelShape shape,
                         std::unique_ptr<EngineMemory> tiers)
    : host(host_table),
      machine(on),
      options(within),
      model(std::move(shape)),
      memory(std::move(tiers)),
      team_size(team_size_of(options.update_threads, memory->on_gpu())),
      watch(host, memory->taken_by_chunks(), memory->on_gpu(), [this] { return memory->own_bytes(); }),
      timeline({}, machine.now_ns) {}

EngineRooms::~EngineRooms() {
  give_up_drives();  // nothing reads their bytes any more, and a drive that hangs must not hold this up
  if (chunks) (void)chunks->drain();
  if (bindings) bindings->unbind_all();
}

std::uint64_t EngineRooms::slack_bytes(std::uint64_t non_model_bytes) const {
  return memory->page_bytes() > 0
             ? tensors_slack_bytes(options.device_budget_bytes, non_model_bytes)
             : allocator_slack_bytes(options.device_budget_bytes, non_model_bytes, activations->peak_bytes());
}

/// Lays the parameters out in the order of their first use.
void EngineRooms::lay_out() {
  std::vector<TensorSpec> ordered;
  place_of.resize(model.params.size());
  for (const TensorId tensor : model.order.ids()) {
    place_of[model.order[tensor]] = tensor;
    ordered.push_back(model.params[model.order[tensor]].spec);
  }
  for (const std::optional<TensorId> tensor : place_of)
    if (tensor) registration_order.push_back(*tensor);
  const std::uint64_t chunk_bytes =
      options.chunk_bytes > 0 ? options.chunk_bytes
                              : chunk_bytes_under(ordered, options.device_budget_bytes, options.host_budget_bytes);
  layout = plan_layout(ordered, layout_options(ordered, options.format, chunk_bytes, memory->spill() != nullptr));
  slots = slot_sizes(layout, options.format);
  memory->lay_pages_for(slots);
}

Result<void> EngineRooms::build() {
  lay_out();
  CASTOR_TRY(make_lanes());
  bindings = std::make_unique<Bindings>(host, model, layout, place_of);
  planner = machine.make_planner ? machine.make_planner(memory->device()) : std::make_unique<InlinePlanner>();
  if (machine.make_pinner) pinner = machine.make_pinner(memory->device());
  make_movers();
  CASTOR_ASSIGN(optimizer, make_optimizer());
  find_uses();
  return {};
}

/// The streams and the team.
Result<void> EngineRooms::make_lanes() {
  Device& device = memory->device();
  compute = device.wrap_compute_stream(host.compute_stream());
  memory->follow(*compute);
  computed = std::make_unique<StreamSpans>(timeline, *compute);
  CASTOR_ASSIGN(up, device.make_stream());
  CASTOR_ASSIGN(down, device.make_stream());
  auto made = machine.make_team(team_size.n_threads, team_size.n_spared_cpus);
  if (!made.ok())
    return Error{made.error().kind, made.error().message + "; set update_threads lower", "update_threads"};
  team = std::move(made.value());
  return {};
}

/// The chunks, and the rooms that move them between the tiers.
void EngineRooms::make_movers() {
  const Budget &device_budget = memory->device_chunks(), &host_budget = memory->host_budget();
  chunks = std::make_unique<ChunkManager>(
      ChunkManager::Places{.device = memory->device_slots(),
                           .host = memory->host_buffers(),
                           .spill = memory->spill(),
                           .compute = *compute,
                           .up = *up,
                           .down = *down,
                           .timeline = timeline,
                           .device_release = [this](ChunkId id) { bindings->released(id); }});
  mover = std::make_unique<StatefulTensorMgr>(StatefulTensorMgr::Parts{
      .chunks = *chunks,
      .device = device_budget,
      .host = host_budget,
      .compute = *compute,
      .timeline = timeline,
      .wait_limits = {.interrupted = [this] { return interrupted(); }, .longest = options.io_timeout}});
  scheduler = std::make_unique<Scheduler>(Scheduler::Parts{.mover = *mover,
                                                           .chunks = *chunks,
                                                           .device = device_budget,
                                                           .host = host_budget,
                                                           .compute = *compute,
                                                           .timeline = timeline,
                                                           .costs = memory->link_costs(),
                                                           .planner = planner.get()});
  activations = std::make_unique<ActivationStore>(
      ActivationStore::Parts{.chunks = *chunks, .mover = *mover, .compute = *compute});
}

Result<std::unique_ptr<OffloadOptimizer>> EngineRooms::make_optimizer() {
  return OffloadOptimizer::make({.layout = layout,
                                 .chunks = *chunks,
                                 .mover = *mover,
                                 .scheduler = *scheduler,
                                 .device = memory->device(),
                                 .compute = *compute,
                                 .down = *down,
                                 .timeline = timeline,
                                 .computed = *computed,
                                 .registration_order = registration_order,
                                 .interrupted = [this] { return interrupted(); },
                                 .team = *team,
                                 .overlap = options.overlap_updates,
                                 .format = options.format});
}

void EngineRooms::find_uses() {
  IndexedVector<PayloadId, ChunkId> payloads;
  for (const PayloadId chunk : layout.chunks.ids()) payloads.push_back(optimizer->states().payload(chunk));
  bindings->set_chunks(payloads);
  for (const auto& params : model.units) {
    std::set<PayloadId> chunks_of_unit;
    for (const ParamId param : params)
      if (place_of[param]) chunks_of_unit.insert(layout.tensors[*place_of[param]].chunk);
    std::vector<Need> unit_needs;
    for (const PayloadId chunk : chunks_of_unit) unit_needs.push_back({payloads[chunk], Tier::device, Access::read});
    needs.push_back(std::move(unit_needs));
    used.push_back({chunks_of_unit.begin(), chunks_of_unit.end()});
  }
}

LargestUnit EngineRooms::largest_unit() const {
  LargestUnit largest;
  for (const UnitId unit : needs.ids()) {
    std::uint64_t n_bytes = 0;
    for (const Need& need : needs[unit]) n_bytes += chunks->chunk(need.chunk).n_bytes;
    if (n_bytes > largest.payload_bytes) largest = {model.unit_names[unit], n_bytes};
  }
  return largest;
}

}  // namespace castor

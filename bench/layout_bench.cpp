// SPDX-License-Identifier: Apache-2.0
// How well models of published shapes are cut into chunks, how long the search takes, and how much of the tiers the
// pools waste while the plan is carried out.
//
//   Layout/MODEL/ranks:N    best_chunk_bytes and plan_layout for bf16 weights, chunks of at most 128 MiB
//     chunk_mib             the size found
//     sizes, chunks         different sizes of chunks, and chunks in all
//     padding_percent       bytes of the chunks that no parameter uses
//
//   Tight/MODEL/ranks:N     five steps by the real mover and pools on tiers without memory (DryRun), bf16; each of N
//                           ranks keeps 1/N of every chunk, and gathers chunks for the units that compute. Of the 16
//                           bytes per parameter that weights, gradients and states take, the host holds 9, and the
//                           device 2 and two of the largest units; the rest is on NVMe
//   Roomy/MODEL/ranks:N     the host holds 20 bytes per parameter, the device 3: both have room to spare
//     device_waste_percent, host_waste_percent   peak of the bytes that the pool took, above the peak of those in use
//     host_exchanged_percent                     bytes made of other sizes in the last step, of those moved over NVMe
//     host_fresh_percent                         bytes taken from upstream in the last step, of the same
//
//   build/bench/layout_bench
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/memory/bytes.h>
#include <castor/schedule/dry_run.h>
#include <castor/states/model_chunks.h>

#include <castor/models/model.h>
#include <castor/optimizer/rehearsal.h>
#include <castor/plugins/torch/record_step.h>

namespace castor {
namespace {

constexpr double kMomentSeconds = 0.01;

/// A step of a published model, with its tensors in the order of their first use.
struct Published {
  RecordedStep step;
  std::vector<TensorSpec> tensors;
  std::vector<TensorId> of_param;

  std::uint64_t n_params() const { return step.n_params(); }
  /// The payload chunks of each unit.
  IndexedVector<UnitId, std::vector<PayloadId>> unit_chunks(const ChunkLayout& layout) const;
  /// The calls, with tensors in place of parameters.
  StepScript script() const;
};

Published published(const std::string& name) {
  const auto model = make_model(name, {.device = c10::kMeta, .seq = 128}).value();
  const Batch batch = model->random_batch(1, 0);
  Published made{record_step(model, [&] { return model->loss(batch); }).value(), {}, {}};
  std::vector<bool> seen(made.step.params.size());
  made.of_param.resize(seen.size());
  for (const UnitId unit : ids<UnitId>(made.step.units.size()))
    for (const std::uint32_t param : made.step.units[index(unit)].params) {
      if (seen[param]) continue;
      seen[param] = true;
      made.of_param[param] = id_at<TensorId>(made.tensors.size());
      made.tensors.push_back({made.step.params[param].numel(), DType::bf16, true, unit});
    }
  return made;
}

IndexedVector<UnitId, std::vector<PayloadId>> Published::unit_chunks(const ChunkLayout& layout) const {
  IndexedVector<UnitId, std::vector<PayloadId>> chunks;
  for (const RecordedStep::Unit& unit : step.units) {
    std::set<PayloadId> own;
    for (const std::uint32_t param : unit.params) own.insert(layout.tensors[of_param[param]].chunk);
    chunks.push_back({own.begin(), own.end()});
  }
  return chunks;
}

/// As the engine does, ends the passes of units that are still open at the end of backward.
StepScript Published::script() const {
  using Kind = StepCall::Kind;
  StepScript calls;
  std::multiset<std::uint32_t> open;
  for (const RecordedCall& recorded : step.calls) {
    StepCall call = recorded.call;
    if (call.kind == Kind::backward) open.insert(call.id);
    if (call.kind == Kind::end_backward) open.erase(open.find(call.id));
    if (call.kind == Kind::gradient) call.id = number(of_param[call.id]);
    if (call.kind == Kind::end_of_backward)
      for (const std::uint32_t unit : open) calls.push_back({Kind::end_backward, unit});
    calls.push_back(call);
  }
  return calls;
}

LargestUnit largest_unit(const Published& model, const ChunkLayout& layout) {
  const auto chunks = model.unit_chunks(layout);
  LargestUnit largest;
  for (const UnitId unit : chunks.ids()) {
    std::uint64_t n_bytes = 0;
    for (const PayloadId chunk : chunks[unit])
      n_bytes += layout.chunks[chunk].numel * size_bytes(layout.chunks[chunk].dtype);
    if (n_bytes > largest.payload_bytes) largest = {model.step.units[index(unit)].name, n_bytes};
  }
  return largest;
}

Result<Rehearsal> iteration_of(const Published& model, const ChunkLayout& layout, const StatePlacement& placement) {
  const auto all = layout.tensors.ids();
  const IndexedVector<RegisteredId, TensorId> registration_order({all.begin(), all.end()});
  const auto unit_chunks = model.unit_chunks(layout);
  const StepScript script = model.script();
  return rehearse({layout, registration_order, unit_chunks, script, {}, /*overlap=*/false, /*plain_norms=*/true},
                  placement, {.update = AdamOptions{}});
}

void layout(benchmark::State& state, const Published& model, std::uint32_t n_ranks) {
  const auto& tensors = model.tensors;
  LayoutOptions options{128 * kMiB, n_ranks};
  ChunkLayout found;
  for (auto _ : state) {
    options.chunk_bytes = best_chunk_bytes(tensors, {128 * kMiB, n_ranks});
    found = plan_layout(tensors, options);
    benchmark::DoNotOptimize(found);
  }
  std::set<std::uint64_t> sizes;
  std::uint64_t numel = 0;
  for (const ChunkShape& chunk : found.chunks) sizes.insert(chunk.numel), numel += chunk.numel;
  const auto n_params = static_cast<double>(model.n_params());
  state.counters["chunk_mib"] = static_cast<double>(options.chunk_bytes) / static_cast<double>(kMiB);
  state.counters["sizes"] = static_cast<double>(sizes.size());
  state.counters["chunks"] = static_cast<double>(found.chunks.size());
  state.counters["padding_percent"] = 100 * (static_cast<double>(numel) - n_params) / n_params;
}

/// The shards of each chunk that one rank keeps.
ChunkLayout shards_of(ChunkLayout layout, std::uint32_t n_ranks) {
  for (ChunkShape& chunk : layout.chunks) {
    chunk.numel /= n_ranks;
    chunk.tile_numel /= n_ranks;
  }
  return layout;
}

/// The budgets, in bytes per parameter.
struct Machine {
  std::uint64_t device = 0, host = 0;
};
constexpr Machine kTight = {2, 9}, kRoomy = {3, 20};

/// Adds to `problem`, whose chunks are `shards`, the whole chunks of `layout`: they are gathered on the device while a
/// unit computes.
void add_gathered(const ChunkLayout& layout, const ChunkLayout& shards, MoveProblem& problem) {
  std::size_t payload = 0;
  for (const PayloadId chunk : layout.chunks.ids()) {
    const ChunkShape& shape = layout.chunks[chunk];
    PlannedChunk whole = {shape.numel * size_bytes(shape.dtype), {}, kAnywhere};
    for (const ChunkUse& use : problem.chunks[id_at<ChunkId>(payload)].uses)
      if (use.tier == Tier::device && use.access == Access::read)
        whole.uses.push_back({use.moment, Tier::device, Access::overwrite, /*dropped=*/true});
    problem.chunks.push_back(std::move(whole));
    payload += 1 + shards.chunks[chunk].n_tiles();
  }
}

/// The uses of chunks, and the room for them, on one rank that trains `model`.
Result<MoveProblem> training_of(const Published& model, std::uint32_t n_ranks, const Machine& machine) {
  const auto& tensors = model.tensors;
  const std::uint64_t shards_bytes = machine.device * model.n_params() / n_ranks;
  PlacementRequest request;
  request.host_budget_bytes = machine.host * model.n_params() / n_ranks;
  request.nvme = true;
  const std::uint64_t chunk_bytes =
      chunk_bytes_under(tensors, n_ranks * shards_bytes, n_ranks * request.host_budget_bytes);
  LayoutOptions options = layout_options(tensors, {}, chunk_bytes, request.nvme);
  options.n_ranks = n_ranks;
  const ChunkLayout layout = plan_layout(tensors, options);
  const ChunkLayout shards = shards_of(layout, n_ranks);
  request.chunks = demands_of(shards, {});
  request.largest_unit = largest_unit(model, layout);
  request.device_budget_bytes = shards_bytes + 2 * request.largest_unit.payload_bytes;
  CASTOR_ASSIGN(const StatePlacement placement, plan_placement(request));
  CASTOR_ASSIGN(Rehearsal step, iteration_of(model, shards, placement));
  MoveProblem problem = std::move(step.problem);
  if (n_ranks > 1) add_gathered(layout, shards, problem);
  problem.room_bytes = {std::vector<std::uint64_t>(problem.n_moments, request.device_budget_bytes),
                        std::vector<std::uint64_t>(problem.n_moments, request.host_budget_bytes)};
  problem.costs = kUsualLinkCosts;
  problem.nvme = request.nvme;
  return problem;
}

/// `part` of `whole` in percent; 0 where `whole` is 0.
double percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

void under_plan(benchmark::State& state, const Published& model, std::uint32_t n_ranks, const Machine& machine) {
  constexpr int kSteps = 5;
  const auto problem = training_of(model, n_ranks, machine);
  if (!problem.ok()) return state.SkipWithError(problem.error().message.c_str());
  const std::vector<double> each(problem->n_moments, kMomentSeconds);
  const MomentSeconds seconds = {each, each};
  for (auto _ : state) {
    const auto plan = plan_step(*problem, seconds);
    if (!plan.ok()) return state.SkipWithError(plan.error().message.c_str());
    DryRun run(*problem, seconds, *plan);
    Result<StepEstimate> step = StepEstimate();
    for (int i = 0; step.ok() && i < kSteps; ++i) step = run.step();
    if (!step.ok()) return state.SkipWithError(step.error().message.c_str());
    const DryRun::PoolUse device = run.pool_use(Tier::device), host = run.pool_use(Tier::host);
    const std::uint64_t nvme_bytes = step->moved.nvme_read + step->moved.nvme_write;
    state.counters["device_waste_percent"] =
        percent(device.peak_taken_bytes - device.peak_in_use_bytes, device.peak_in_use_bytes);
    state.counters["host_waste_percent"] =
        percent(host.peak_taken_bytes - host.peak_in_use_bytes, host.peak_in_use_bytes);
    state.counters["host_exchanged_percent"] = percent(host.exchanged_bytes, nvme_bytes);
    state.counters["host_fresh_percent"] = percent(host.fresh_bytes, nvme_bytes);
  }
}

void register_all() {
  for (const std::string& name : model_names()) {
    if (name == "mlp") continue;  // is not published
    const Published model = published(name);
    for (const std::uint32_t n_ranks : {1U, 8U}) {
      const auto add = [&](const std::string& what, const auto& run) {
        const std::string title = what + "/" + name + "/ranks:" + std::to_string(n_ranks);
        return benchmark::RegisterBenchmark(title.c_str(), run)->Unit(benchmark::kMillisecond);
      };
      add("Layout", [=](benchmark::State& state) { layout(state, model, n_ranks); });
      add("Tight", [=](benchmark::State& state) { under_plan(state, model, n_ranks, kTight); })->Iterations(1);
      add("Roomy", [=](benchmark::State& state) { under_plan(state, model, n_ranks, kRoomy); })->Iterations(1);
    }
  }
}

}  // namespace
}  // namespace castor

int main(int argc, char** argv) {
  castor::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// How well models of published shapes are cut into chunks, how long the search takes, and what the pools waste of the
// tiers while the plan is carried out.
//
//   Layout/MODEL/ranks:N    best_chunk_bytes and plan_layout for bf16 weights, chunks of at most 128 MiB
//     chunk_mib             the size found
//     sizes, chunks         different sizes of chunks, and chunks in all
//     padding_percent       bytes of the chunks that no parameter uses
//
//   Tight/MODEL/ranks:N     five steps by the real mover and pools on tiers without memory (dry_run.h), bf16; of N ranks
//                           each keeps 1/N of every chunk, and gathers chunks for the units that compute. Of the 16 bytes
//                           per parameter that weights, gradients and states take the host holds 9, the device 2 and two
//                           of the largest units; the rest is on NVMe
//   Roomy/MODEL/ranks:N     the host holds 20, the device 3: both have room to spare
//     device_waste_percent, host_waste_percent   peak of what the pool took, above the peak of what was in use of it
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
#include <castor/offload/model_chunks.h>

#include "dry_run.h"
#include "shapes/model_tensors.h"

namespace castor {
namespace {

void layout(benchmark::State& state, const shapes::Model& model, std::uint32_t n_ranks) {
  const auto tensors = shapes::tensors_of(model, DType::bf16);
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

/// What one rank keeps of each chunk.
ChunkLayout shards_of(ChunkLayout layout, std::uint32_t n_ranks) {
  for (ChunkShape& chunk : layout.chunks) {
    chunk.numel /= n_ranks;
    chunk.tile_numel = std::min(chunk.tile_numel, chunk.numel);
  }
  return layout;
}

/// Bytes of the chunks that hold the parameters of the unit with the most.
std::uint64_t largest_unit_bytes(const shapes::Model& model, const ChunkLayout& layout) {
  std::uint64_t largest_bytes = 0;
  for (const estimate::BytesByChunk& unit : estimate::chunks_by_unit(model, layout)) {
    std::uint64_t n_bytes = 0;
    for (const auto& [chunk, own_bytes] : unit) n_bytes += layout.chunks[chunk].numel * 2;
    largest_bytes = std::max(largest_bytes, n_bytes);
  }
  return largest_bytes;
}

/// Bytes per parameter that budgets allow.
struct Machine {
  std::uint64_t device = 0, host = 0;
};
constexpr Machine kTight = {2, 9}, kRoomy = {3, 20};

/// A rank that trains `model`.
Result<DryRun::Model> training_of(const shapes::Model& model, std::uint32_t n_ranks, const Machine& machine) {
  const auto tensors = shapes::tensors_of(model, DType::bf16);
  DryRun::Model made;
  made.n_ranks = n_ranks;
  made.host_bytes = machine.host * model.n_params() / n_ranks;
  const std::uint64_t shards_bytes = machine.device * model.n_params() / n_ranks;
  made.layout =
      plan_layout(tensors, {chunk_bytes_under(tensors, n_ranks * shards_bytes, n_ranks * made.host_bytes), n_ranks});
  made.shards = shards_of(made.layout, n_ranks);
  PlacementRequest request;
  request.chunks = demands_of(made.shards);
  request.largest_unit = {"largest unit", largest_unit_bytes(model, made.layout)};
  made.device_bytes = request.device_budget_bytes = shards_bytes + 2 * request.largest_unit.payload_bytes;
  request.host_budget_bytes = made.host_bytes;
  request.nvme = true;
  CASTOR_ASSIGN(const Plan placement, plan_placement(request));
  made.iteration = estimate::iteration_of(model, made.shards, placement, {}, /*clip=*/false);
  return made;
}

void under_plan(benchmark::State& state, const shapes::Model& model, std::uint32_t n_ranks, const Machine& machine) {
  constexpr int kSteps = 5;
  const auto training = training_of(model, n_ranks, machine);
  if (!training.ok()) return state.SkipWithError(training.error().message.c_str());
  for (auto _ : state) {
    DryRun run(*training);
    Result<void> outcome;
    for (int i = 0; outcome.ok() && i < kSteps; ++i) outcome = run.step();
    if (!outcome.ok()) return state.SkipWithError(outcome.error().message.c_str());
    const auto percent_of_nvme = [&](std::uint64_t n_bytes) {
      const auto nvme = static_cast<double>(run.moved().nvme_read + run.moved().nvme_write);
      return nvme == 0 ? 0 : 100 * static_cast<double>(n_bytes) / nvme;
    };
    state.counters["device_waste_percent"] = run.device().waste_percent();
    state.counters["host_waste_percent"] = run.host().waste_percent();
    state.counters["host_exchanged_percent"] = percent_of_nvme(run.host().memory.exchanged_bytes());
    state.counters["host_fresh_percent"] = percent_of_nvme(run.host().memory.fresh_bytes());
  }
}

void register_all() {
  for (const std::string& name : shapes::model_names())
    for (const std::uint32_t n_ranks : {1U, 8U}) {
      const shapes::Model model = shapes::model(name).value();
      const auto add = [&](const std::string& what, const auto& run) {
        const std::string title = what + "/" + name + "/ranks:" + std::to_string(n_ranks);
        return benchmark::RegisterBenchmark(title.c_str(), run)->Unit(benchmark::kMillisecond);
      };
      add("Layout", [=](benchmark::State& state) { layout(state, model, n_ranks); });
      add("Tight", [=](benchmark::State& state) { under_plan(state, model, n_ranks, kTight); })->Iterations(1);
      add("Roomy", [=](benchmark::State& state) { under_plan(state, model, n_ranks, kRoomy); })->Iterations(1);
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

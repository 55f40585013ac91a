// SPDX-License-Identifier: Apache-2.0
// How well models of published shapes are cut into chunks, and how long the search takes.
//
//   Layout/MODEL/ranks:N    best_chunk_bytes and plan_layout for bf16 weights, chunks of at most 128 MiB
//     chunk_mib             the size found
//     sizes, chunks         different sizes of chunks, and chunks in all
//     padding_percent       bytes of the chunks that no parameter uses
//
//   build/bench/layout_bench
#include <benchmark/benchmark.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/memory/bytes.h>

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

void register_all() {
  for (const std::string& name : shapes::model_names())
    for (const std::uint32_t n_ranks : {1U, 8U}) {
      const std::string title = "Layout/" + name + "/ranks:" + std::to_string(n_ranks);
      benchmark::RegisterBenchmark(title.c_str(), layout, shapes::model(name).value(), n_ranks)
          ->Unit(benchmark::kMillisecond);
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

// SPDX-License-Identifier: Apache-2.0
// The cost of allocating chunks of a different size than the freed ones, under a budget that is full: 768 MiB are
// filled in turns with blocks of one size and of six times that size, like weights and their optimizer states, and
// every page is touched. Uses the first GPU's pinned memory, or the host's if there is no GPU.
//
//   Pool     PoolResource: the new blocks consist of the pages of the old ones
//   Fresh    without a pool: the old blocks are freed, the new ones come from the kernel (and are pinned)
//   Kept     a pool, and blocks of one size: the cost of touching alone
//
//     s_per_gib, min, max     seconds per GiB that is filled: median and spread of the rounds
//
//   build/bench/pool_bench
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <vector>

#include <castor/memory/buffer.h>
#include <castor/memory/bytes.h>
#include <castor/memory/clock.h>
#include <castor/memory/device.h>
#include <castor/memory/limited_resource.h>
#include <castor/memory/pool_resource.h>
#include <castor/memory/statistics.h>

namespace castor {
namespace {

constexpr std::uint64_t kBudgetBytes = 768 * kMiB, kChunkBytes = 16 * kMiB;

std::unique_ptr<Device> first_device() {
  auto cuda = make_cuda_device(0);
  return cuda.ok() ? std::move(cuda).value() : make_cpu_device();
}

/// Fills the budget with blocks of `n_bytes`, which are freed on return.
void fill(MemoryResource& resource, std::uint64_t n_bytes) {
  std::vector<Buffer> blocks;
  while ((blocks.size() + 1) * n_bytes <= kBudgetBytes) {
    blocks.push_back(Buffer::allocate(resource, n_bytes).value());
    for (std::uint64_t at = 0; at < n_bytes; at += kBufferAlignBytes) blocks.back().data()[at] = std::byte{1};
  }
}

void alternate(benchmark::State& state, bool pooled, std::uint64_t other_bytes) {
  const std::unique_ptr<Device> device = first_device();
  Budget budget(Tier::host, kBudgetBytes);
  LimitedResource limited(device->host_memory(), budget);
  PoolResource pool(limited);
  MemoryResource& resource = pooled ? static_cast<MemoryResource&>(pool) : limited;
  for (const std::uint64_t n_bytes : {kChunkBytes, other_bytes}) fill(resource, n_bytes);
  std::vector<double> s_per_gib;
  for (auto _ : state) {
    const std::uint64_t start_ns = steady_now_ns();
    for (const std::uint64_t n_bytes : {kChunkBytes, other_bytes}) fill(resource, n_bytes);
    const double seconds = static_cast<double>(steady_now_ns() - start_ns) * 1e-9;
    s_per_gib.push_back(seconds * static_cast<double>(kGiB) / (2.0 * kBudgetBytes));
  }
  std::sort(s_per_gib.begin(), s_per_gib.end());
  state.counters["s_per_gib"] = median(s_per_gib, Middle::upper);
  state.counters["min"] = s_per_gib.front();
  state.counters["max"] = s_per_gib.back();
  state.SetLabel(device->description());
}

BENCHMARK_CAPTURE(alternate, Pool, true, 6 * kChunkBytes)->Name("Pool")->Iterations(9)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(alternate, Fresh, false, 6 * kChunkBytes)
    ->Name("Fresh")
    ->Iterations(9)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(alternate, Kept, true, kChunkBytes)->Name("Kept")->Iterations(9)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace castor

BENCHMARK_MAIN();

// SPDX-License-Identifier: Apache-2.0
// How fast the mover moves, beside plain copies of the same chunks by the same device in the same run, and the cost of
// the mover's own work. On the first GPU, or on the host where there is none.
//
//   Up          every chunk is fetched to the device for one use and leaves clean: host to device
//   UpAndDown   every chunk is also changed there and written back: both directions at once
//   Hooks       every chunk is resident where it is needed: the thread's time in a moment's begin and end,
//               us_per_moment
//
//     gb_s, copy_gb_s              bytes per second of the mover, and of plain copies (each way; medians)
//     share, share_min, share_max  gb_s / copy_gb_s by rounds: median and spread
//
//   build/bench/move_bench
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include <castor/memory/bytes.h>
#include <castor/memory/clock.h>
#include <castor/memory/device.h>
#include <castor/memory/limited_resource.h>
#include <castor/memory/pool_resource.h>
#include <castor/memory/statistics.h>
#include <castor/schedule/scheduler.h>

namespace castor {
namespace {

constexpr std::uint32_t kChunks = 64;
constexpr std::uint32_t kMoments = 300;  // as many as a GPT of 48 blocks has units
constexpr int kWarmUp = 6;               // iterations: recorded, planned, timed

std::unique_ptr<Device> first_device() {
  auto cuda = make_cuda_device(0);
  return cuda.ok() ? std::move(cuda).value() : make_cpu_device();
}

/// A mover over chunks on the host, in pinned memory where the device has any.
struct World {
  explicit World(std::uint64_t chunk_bytes) {
    for (std::uint32_t n = 0; n < kChunks; ++n) {
      const ChunkId id = chunks.add(ChunkKind::payload, chunk_bytes, "chunk " + std::to_string(n));
      (void)mover.open(id, Tier::host).value();
      chunks.written(id, Tier::host);
    }
    scheduler.forget_trace();
  }

  void use(std::uint32_t moment, ChunkId id, Access access) {
    const std::array needs = {Need{id, Tier::device, access}};
    scheduler.begin({MomentKind::forward, moment}, needs).value();
    scheduler.end(needs);
  }

  void use_all(Access access) {
    for (const ChunkId id : chunks.ids()) use(number(id), id, access);
    scheduler.end_iteration();
  }

  /// Wall-clock seconds of `n` iterations, until every copy has arrived.
  double seconds(int n, Access access) {
    chunks.drain().value();
    const std::uint64_t start_ns = steady_now_ns();
    for (int i = 0; i < n; ++i) use_all(access);
    chunks.drain().value();
    return static_cast<double>(steady_now_ns() - start_ns) * 1e-9;
  }

  const std::unique_ptr<Device> device = first_device();
  Budget device_budget{Tier::device, Budget::kUnlimited}, host_budget{Tier::host, Budget::kUnlimited};
  LimitedResource limited_device{device->device_memory(), device_budget},
      limited_host{device->host_memory(), host_budget};
  PoolResource device_pool{limited_device}, host_pool{limited_host};
  const std::unique_ptr<Stream> compute = device->wrap_compute_stream(nullptr), up = device->make_stream().value(),
                                down = device->make_stream().value();
  Timeline timeline;
  ChunkManager chunks{{.device = device_pool,
                       .host = host_pool,
                       .spill = nullptr,
                       .compute = *compute,
                       .up = *up,
                       .down = *down,
                       .timeline = timeline}};
  StatefulTensorMgr mover{{.chunks = chunks,
                           .device = device_budget,
                           .host = host_budget,
                           .compute = *compute,
                           .timeline = timeline}};
  Scheduler scheduler{{.mover = mover,
                       .chunks = chunks,
                       .device = device_budget,
                       .host = host_budget,
                       .compute = *compute,
                       .timeline = timeline}};
};

/// Copies of kChunks chunks, each to a place of its own, back to back, up or both ways at once.
class PlainCopies {
 public:
  PlainCopies(Device& device, std::uint64_t chunk_bytes)
      : chunk_bytes_(chunk_bytes), up_(device.make_stream().value()), down_(device.make_stream().value()) {
    for (Buffer* buffer : {&source_, &target_})
      *buffer = Buffer::allocate(device.host_memory(), kChunks * chunk_bytes).value();
    for (Buffer* buffer : {&arriving_, &leaving_})
      *buffer = Buffer::allocate(device.device_memory(), kChunks * chunk_bytes).value();
  }

  double seconds(std::uint64_t n_chunks, bool both_ways) {
    const std::uint64_t start_ns = steady_now_ns();
    for (std::uint64_t i = 0; i < n_chunks; ++i) {
      const std::uint64_t at = i % kChunks * chunk_bytes_;
      (void)up_->copy(arriving_.data() + at, source_.data() + at, chunk_bytes_);
      if (both_ways) (void)down_->copy(target_.data() + at, leaving_.data() + at, chunk_bytes_);
    }
    up_->synchronize().value();
    down_->synchronize().value();
    return static_cast<double>(steady_now_ns() - start_ns) * 1e-9;
  }

 private:
  const std::uint64_t chunk_bytes_;
  const std::unique_ptr<Stream> up_, down_;
  Buffer source_, target_, arriving_, leaving_;
};

void moves(benchmark::State& state, Access access) {
  const std::unique_ptr<Device> device = first_device();
  const std::uint64_t chunk_bytes = (device->kind() == DeviceKind::cuda ? 32 : 1) * kMiB;
  constexpr int kIterations = 4;  // a round
  World world(chunk_bytes);
  PlainCopies copies(*device, chunk_bytes);
  for (const ChunkId id : world.chunks.ids()) world.mover.planned().set_rest(id, only(Tier::host));
  for (int i = 0; i < kWarmUp; ++i) world.use_all(access);
  (void)copies.seconds(kChunks, true);  // so that its pages are mapped
  std::vector<double> gb_s, copy_gb_s, shares;
  for (auto _ : state) {
    const std::uint64_t before_bytes = world.chunks.moved().h2d;
    const double seconds = world.seconds(kIterations, access);
    const std::uint64_t moved_bytes = world.chunks.moved().h2d - before_bytes;
    const double copy_seconds = copies.seconds(moved_bytes / chunk_bytes, access != Access::read);
    gb_s.push_back(static_cast<double>(moved_bytes) / seconds * 1e-9);
    copy_gb_s.push_back(static_cast<double>(moved_bytes) / copy_seconds * 1e-9);
    shares.push_back(copy_seconds / seconds);
  }
  state.counters["gb_s"] = median(gb_s, Middle::upper);
  state.counters["copy_gb_s"] = median(copy_gb_s, Middle::upper);
  state.counters["share"] = median(shares, Middle::upper);
  state.counters["share_min"] = *std::min_element(shares.begin(), shares.end());
  state.counters["share_max"] = *std::max_element(shares.begin(), shares.end());
  state.SetLabel(device->description());
}

void hooks(benchmark::State& state) {
  World world(64 * kKiB);
  const auto iteration = [&world] {
    for (std::uint32_t m = 0; m < kMoments; ++m) world.use(m, ChunkId{m * kChunks / kMoments}, Access::read);
    world.scheduler.end_iteration();
  };
  for (int i = 0; i < kWarmUp; ++i) iteration();
  std::vector<double> us;
  for (auto _ : state) {
    const std::uint64_t start_ns = steady_now_ns();
    iteration();
    us.push_back(static_cast<double>(steady_now_ns() - start_ns) * 1e-3 / kMoments);
  }
  state.counters["us_per_moment"] = median(us, Middle::upper);
  state.counters["us_max"] = *std::max_element(us.begin(), us.end());
  state.SetLabel(world.device->description());
}

BENCHMARK_CAPTURE(moves, Up, Access::read)->Name("Up")->Iterations(15)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(moves, UpAndDown, Access::update)->Name("UpAndDown")->Iterations(15)->Unit(benchmark::kMillisecond);
BENCHMARK(hooks)->Name("Hooks")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace castor

BENCHMARK_MAIN();

// SPDX-License-Identifier: Apache-2.0
// The costs of the storage engine, piece by piece. The drive's own ceiling belongs to `castor bench io`; here each
// piece is measured alone, so that a change to it shows.
//
//   StorePut, StoreGet      tensors of 64 KiB and 1 MiB, with and without checksums, 16 in flight, on a drive
//   NullPut                 the same with the engine that moves nothing: the store's own cost per value
//   NullEngine              one request of 4 KiB through that engine: an engine's cost per request
//   Checksum                xxh3-64 over a block that is in the cache (64 KiB, 1 MiB), and over 256 MiB
//   ExtentAllocator         one free and one allocate among n extents of mixed sizes
//
//   TMPDIR=/drive build/bench/io_bench [--benchmark_filter=Store --benchmark_repetitions=7]      median and spread
//
// Store… use an unnamed file in $TMPDIR, or in the working directory.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <castor/io/extent_allocator.h>
#include <castor/io/tensor_store.h>
#include <castor/memory/bytes.h>
#include <castor/memory/host_resource.h>

#include "store/checksum.h"

namespace castor {
namespace {

constexpr std::uint64_t kSpanBytes = 64 * kMiB;
constexpr std::size_t kUnderWay = 16;

/// Page-aligned bytes with varying values.
class Bytes {
 public:
  explicit Bytes(std::uint64_t n_bytes) : buffer_(Buffer::allocate(resource_, n_bytes).value()) {
    for (std::uint64_t i = 0; i < n_bytes; ++i) buffer_.data()[i] = static_cast<std::byte>(i * 2654435761u >> 24);
  }
  BufferView view() const { return buffer_.view(); }

 private:
  HostResource resource_;
  Buffer buffer_;
};

std::string folder() {
  const char* named = std::getenv("TMPDIR");
  return named ? named : ".";
}

/// A store with tensors in it, and memory for those in flight. An error ends the program.
class Workload {
 public:
  Workload(EngineChoice engine, std::uint64_t tensor_bytes, bool checksums)
      : n_tensors_(kSpanBytes / tensor_bytes), tensor_bytes_(tensor_bytes), memory_(kUnderWay * tensor_bytes) {
    TensorStoreOptions options;
    options.folders = {folder()};
    options.engine = engine;
    options.checksums = checksums;
    store_ = TensorStore::open(options).value();
    for (std::uint64_t i = 0; i < n_tensors_; ++i) put();
    wait_for_all();
  }

  void put() {
    const std::size_t place = take_place();
    under_way_[place] = store_->put(n_started_++ % n_tensors_, bytes(place));
  }
  void get() {
    const std::size_t place = take_place();
    under_way_[place] = store_->get(n_started_++ % n_tensors_, bytes(place));
  }
  void wait_for_all() {
    for (Event& event : under_way_) event.wait().value();
  }

 private:
  std::size_t take_place() {
    const std::size_t place = n_started_ % kUnderWay;
    under_way_[place].wait().value();
    return place;
  }
  BufferView bytes(std::size_t place) const { return memory_.view().part(place * tensor_bytes_, tensor_bytes_); }

  const std::uint64_t n_tensors_, tensor_bytes_;
  std::uint64_t n_started_ = 0;
  Bytes memory_;
  std::unique_ptr<TensorStore> store_;
  std::vector<Event> under_way_{kUnderWay};
};

void report_bytes(benchmark::State& state, std::uint64_t n_bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(static_cast<std::uint64_t>(state.iterations()) * n_bytes));
}

template <EngineChoice engine>
void store_put(benchmark::State& state) {
  const auto tensor_bytes = static_cast<std::uint64_t>(state.range(0));
  Workload workload(engine, tensor_bytes, state.range(1) != 0);
  for (auto _ : state) workload.put();
  workload.wait_for_all();
  report_bytes(state, tensor_bytes);
}

void store_get(benchmark::State& state) {
  const auto tensor_bytes = static_cast<std::uint64_t>(state.range(0));
  Workload workload(EngineChoice::best, tensor_bytes, state.range(1) != 0);
  for (auto _ : state) workload.get();
  workload.wait_for_all();
  report_bytes(state, tensor_bytes);
}

void on_drive(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"bytes", "checksums"})->ArgsProduct({{64 * kKiB, kMiB}, {0, 1}})->UseRealTime();
}
BENCHMARK(store_put<EngineChoice::best>)->Name("StorePut")->Apply(on_drive);
BENCHMARK(store_get)->Name("StoreGet")->Apply(on_drive);
BENCHMARK(store_put<EngineChoice::null>)->Name("NullPut")->Apply(on_drive);

/// Requests one after the other at one place, as the engine chains them; ends after the given number.
class Chain final : public IoSink {
 public:
  Chain(const IoRequest& request, std::uint64_t n_requests) : request_(request), n_left_(n_requests) {}
  std::optional<IoRequest> on_complete(const IoOutcome&) noexcept override {
    if (--n_left_ > 0) return request_;
    ended_.set_value();
    return std::nullopt;
  }
  void wait() { ended_.get_future().wait(); }

 private:
  const IoRequest request_;
  std::uint64_t n_left_;
  std::promise<void> ended_;
};

void null_engine(benchmark::State& state) {
  constexpr std::uint64_t kRequests = 1000;
  const auto engine = make_io_engine(EngineChoice::null).value();
  const Bytes memory(4 * kKiB);
  IoRequest request;
  request.bytes = memory.view();
  for (auto _ : state) {
    Chain chain(request, kRequests);
    engine->start(request, chain);
    chain.wait();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * kRequests));
}
BENCHMARK(null_engine)->Name("NullEngine")->UseRealTime();

void checksum_rate(benchmark::State& state) {
  const Bytes memory(static_cast<std::uint64_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(checksum(memory.view()));
  report_bytes(state, memory.view().n_bytes);
}
BENCHMARK(checksum_rate)->Name("Checksum")->ArgName("bytes")->Arg(64 * kKiB)->Arg(kMiB)->Arg(256 * kMiB);

void extent_allocator(benchmark::State& state) {
  std::mt19937_64 random(20211);
  ExtentAllocator allocator;
  const auto new_extent = [&] {
    return allocator.allocate((random() % 256 + 1) * ExtentAllocator::kGrainBytes).value();
  };
  std::vector<Extent> held(static_cast<std::size_t>(state.range(0)));
  for (Extent& extent : held) extent = new_extent();
  for (auto _ : state) {
    Extent& extent = held[random() % held.size()];
    allocator.free(extent);
    extent = new_extent();
  }
  state.counters["gaps"] = static_cast<double>(allocator.n_gaps());
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(extent_allocator)->Name("ExtentAllocator")->ArgName("extents")->Arg(100)->Arg(10000);

}  // namespace
}  // namespace castor

BENCHMARK_MAIN();

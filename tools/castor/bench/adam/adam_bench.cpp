// SPDX-License-Identifier: Apache-2.0
#include "bench/adam/adam_bench.h"

#include <algorithm>
#include <utility>

#include <castor/memory/bytes.h>

#include "cli/process.h"

namespace castor::bench {
namespace {

constexpr double kMostTrialsS = 3;  // trial time of all ways together, to find the fastest
constexpr std::uint64_t kBusBufferBytes = 256 * kMiB;
/// Copies queued in each direction: 40 ms of a bus of 55 GB/s.
constexpr std::size_t kCopiesAhead = 8;
/// Elements updated between two calls of BusTraffic::feed: at most 25 ms of one slow thread.
constexpr std::uint64_t kElementsPerLook = std::uint64_t{16} << 20;

/// `way` while copies run in both directions; their bytes count too.
Way beside(BusTraffic& bus, Way way) {
  const auto counted = std::make_shared<std::uint64_t>(0);  // owners: both functions of the one way
  Way both;
  both.name = way.name + " beside the bus";
  both.begin = [&bus, counted]() -> Result<void> {
    CASTOR_TRY(bus.stop());
    *counted = bus.moved_bytes();
    bus.feed();
    return {};
  };
  both.once = [&bus, counted, once = std::move(way.once)]() -> Result<std::uint64_t> {
    bus.feed();
    CASTOR_ASSIGN(const std::uint64_t n_bytes, once());
    const std::uint64_t before = std::exchange(*counted, bus.moved_bytes());
    return n_bytes + *counted - before;
  };
  return both;
}

}  // namespace

Result<std::unique_ptr<AdamBench>> AdamBench::open(const AdamBenchOptions& options, Show show, Stopped stopped) {
  if (options.device == DeviceKind::cuda) CASTOR_TRY(cli::check_gpu());
  std::unique_ptr<AdamBench> bench(new AdamBench(options, std::move(show), std::move(stopped)));
  bench->show_("filling " + format_bytes(kMemoryPerElement * options.n_elements));
  const unsigned most = *std::max_element(options.threads.begin(), options.threads.end());
  CASTOR_ASSIGN(bench->host_, HostWays::make(options.n_elements, most));
  const auto torch = bench->host_->torch(1, false);
  if (!torch.ok()) bench->notes_.push_back(torch.error().message);
  bench->cases_ = plan_adam_cases(options, torch.ok());
  if (options.device == DeviceKind::cuda) CASTOR_TRY(bench->open_device());
  return bench;
}

Result<void> AdamBench::open_device() {
  CASTOR_ASSIGN(device_, make_cuda_device(0));
  CASTOR_ASSIGN(gpu_, GpuWays::make(*device_, host_->arrays()));
  CASTOR_ASSIGN(bus_, BusTraffic::make(*device_, kBusBufferBytes, kCopiesAhead));
  return {};
}

Result<Figure> AdamBench::measure(const AdamCase& one) {
  Figure figure = figure_of(one, options_);
  show_(figure.name + ": looking for the fastest settings");
  CASTOR_ASSIGN(const Pair pair, pair_for(one));
  Timing once = timing_;
  once.seconds = 0;
  for (const Way* way : {&pair.ceiling, &pair.ours}) {
    const auto warm = run_way(*way, once);
    if (!warm.ok()) return warm.error();
  }
  figure.ceiling_name = pair.ceiling.name;
  while (figure.rounds.size() < options_.runs) {
    const std::string number = std::to_string(figure.rounds.size() + 1) + " of " + std::to_string(options_.runs);
    CASTOR_ASSIGN(const Round done, round(pair, figure.name + ", round " + number));
    figure.rounds.push_back(done);
  }
  return figure;
}

Result<Round> AdamBench::round(const Pair& pair, const std::string& doing) {
  Round done;
  show_(doing + ": " + pair.ceiling.name);
  CASTOR_ASSIGN(done.ceiling, run_way(pair.ceiling, timing_));
  show_(doing + ": " + pair.ours.name);
  CASTOR_ASSIGN(done.ours, run_way(pair.ours, timing_));
  show_(doing + ": " + pair.ceiling.name + " again");
  CASTOR_ASSIGN(done.ceiling_again, run_way(pair.ceiling, timing_));
  return done;
}

Result<AdamBench::Pair> AdamBench::pair_for(const AdamCase& one) {
  if (one.match == Match::device_copy) return Pair{gpu_->update(), gpu_->copy()};
  if (one.match == Match::busy_bus) return beside_bus();
  Pair pair;
  CASTOR_ASSIGN(pair.ours, host_->update(one.n_threads, 0, host_->n_elements()));
  if (one.match == Match::bare_in_parts) {
    CASTOR_ASSIGN(pair.ours, host_->update_in_parts(one.n_threads, options_.part_elements));
  }
  if (one.match == Match::torch || one.match == Match::torch_with_casts) {
    CASTOR_ASSIGN(pair.ceiling, host_->torch(one.n_threads, one.match == Match::torch_with_casts));
  } else {
    CASTOR_ASSIGN(pair.ceiling, fastest_bare(one.n_threads));
  }
  return pair;
}

Result<Way> AdamBench::fastest_of(const std::vector<Way>& ways) {
  Timing settling = timing_;
  settling.seconds = std::min(kMostTrialsS, timing_.seconds * static_cast<double>(ways.size()));
  CASTOR_ASSIGN(const std::size_t best, fastest(ways, settling));
  return ways[best];
}

Result<Way> AdamBench::fastest_bare(unsigned n_threads) {
  if (const auto known = bare_.find(n_threads); known != bare_.end()) return known->second;
  CASTOR_ASSIGN(const auto ways, host_->bare(n_threads, 0, host_->n_elements()));
  CASTOR_ASSIGN(Way best, fastest_of(ways));
  return bare_.emplace(n_threads, std::move(best)).first->second;
}

/// Each turn takes the next slice of the elements, so that no slice is still in a cache. Castor and the ceiling each
/// run with the number of threads that is fastest for them.
Result<AdamBench::Pair> AdamBench::beside_bus() {
  std::vector<Way> ours, bare;
  const auto add = [this](std::vector<Way>& ways, std::vector<Way> slices, unsigned n_threads) {
    ways.push_back(beside(*bus_, in_turn(std::move(slices))));
    ways.back().name += " by " + std::to_string(n_threads);
  };
  for (const unsigned n_threads : threads_beside_bus(options_)) {
    std::vector<Way> updates;
    std::vector<std::vector<Way>> moves;  // by slice
    for (std::uint64_t first = 0; first < host_->n_elements(); first += kElementsPerLook) {
      const std::uint64_t n = std::min(kElementsPerLook, host_->n_elements() - first);
      CASTOR_ASSIGN(updates.emplace_back(), host_->update(n_threads, first, n));
      CASTOR_ASSIGN(moves.emplace_back(), host_->bare(n_threads, first, n));
    }
    add(ours, std::move(updates), n_threads);
    for (std::size_t i = 0; i < moves.front().size(); ++i) {
      std::vector<Way> slices;
      for (const auto& ways : moves) slices.push_back(ways[i]);
      add(bare, std::move(slices), n_threads);
    }
  }
  Pair pair;
  CASTOR_ASSIGN(pair.ours, fastest_of(ours));
  CASTOR_ASSIGN(pair.ceiling, fastest_of(bare));
  return pair;
}

}  // namespace castor::bench

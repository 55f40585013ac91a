// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <castor/memory/device.h>

#include "bench/adam/bus_traffic.h"
#include "bench/adam/cases.h"
#include "bench/adam/gpu_ways.h"
#include "bench/adam/host_ways.h"
#include "bench/common/figure.h"
#include "bench/common/stopped.h"

namespace castor::bench {

/// Measures updates in rounds of ceiling, Castor, ceiling again, so that other load on the machine affects all three.
class AdamBench {
 public:
  /// Shows progress: `host, 2 threads, round 2 of 3: castor`.
  using Show = std::function<void(const std::string&)>;

  /// Errors: failed if a GPU is requested and there is none; does_not_fit.
  static Result<std::unique_ptr<AdamBench>> open(const AdamBenchOptions& options, Show show, Stopped stopped);

  /// Errors: those of the update; interrupted.
  Result<Figure> measure(const AdamCase& one);

  const std::vector<AdamCase>& cases() const { return cases_; }
  /// The parts of the comparison that are missing, one sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  /// The two ways that take turns.
  struct Pair {
    Way ours, ceiling;
  };

  AdamBench(const AdamBenchOptions& options, Show show, Stopped stopped)
      : options_(options), show_(std::move(show)), timing_{options.seconds, std::move(stopped)} {}

  Result<void> open_device();
  Result<Pair> pair_for(const AdamCase& one);
  Result<Pair> beside_bus();
  Result<Way> fastest_of(const std::vector<Way>& ways);
  Result<Way> fastest_bare(unsigned n_threads);
  Result<Round> round(const Pair& pair, const std::string& doing);

  const AdamBenchOptions options_;
  const Show show_;
  const Timing timing_;
  std::vector<AdamCase> cases_;
  std::vector<std::string> notes_;
  std::unique_ptr<HostWays> host_;
  std::map<unsigned, Way> bare_;    ///< the fastest way, by number of threads
  std::unique_ptr<Device> device_;  ///< declared before the members that hold its memory
  std::unique_ptr<GpuWays> gpu_;
  std::unique_ptr<BusTraffic> bus_;
};

}  // namespace castor::bench

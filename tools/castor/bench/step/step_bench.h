// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <castor/memory/buffer.h>
#include <castor/memory/host_resource.h>

#include "bench/io/ceiling.h"
#include "bench/common/figure.h"
#include "bench/step/idle_model.h"
#include "bench/step/options.h"
#include "bench/io/subject.h"

namespace castor::bench {

/// Measures steps whose states all live on drives, in rounds of ceilings, Castor, ceilings again.
///
/// The ceilings move the same bytes in a separate file, because they would overwrite the states. The first is the drive
/// at its best, in the few MiB that are in flight at a time; the second is a bare loop in as much memory as the states
/// in flight have, because where a host copies every byte (virtio), bytes outside the caches move slower.
class StepBench {
 public:
  /// Shows progress: `round 2 of 3: castor`.
  using Show = std::function<void(const std::string&)>;

  /// Places the model and runs the steps that a plan needs. Errors: those of the plugin and of the store.
  static Result<std::unique_ptr<StepBench>> open(const StepBenchOptions& options, Show show, Stopped stopped);

  /// Returns one figure per ceiling. Errors: as open; interrupted.
  Result<std::vector<Figure>> measure();

  std::uint64_t n_params() const { return recorded_.n_params(); }
  /// Bytes that the drives read and write in a step.
  std::uint64_t step_bytes() const { return step_bytes_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  StepBench(const StepBenchOptions& options, RecordedStep recorded, Show show, Stopped stopped)
      : options_(options),
        show_(std::move(show)),
        stopped_(stopped),
        recorded_(std::move(recorded)),
        model_(recorded_, std::move(stopped)) {}

  struct Limit {
    std::unique_ptr<Ceiling> ceiling;  ///< null if it does not work here
    IoCase how;
    Figure figure;
  };

  Result<void> open_strategy();
  Result<void> open_store();
  void add_limits();
  Result<void> settle_limits();
  Result<void> write_trace();
  Result<std::uint64_t> moved_bytes();
  Result<Sample> steps(double seconds);
  Result<std::optional<Sample>> measure(Limit& limit);
  Result<void> round();

  const StepBenchOptions options_;
  const Show show_;
  const Stopped stopped_;
  const RecordedStep recorded_;
  IdleModel model_;
  std::unique_ptr<Strategy> strategy_;
  std::uint64_t step_bytes_ = 0;
  HostResource host_;
  Buffer memory_;  ///< declared before the store, which may still access it while it is destroyed
  std::unique_ptr<Subject> subject_;
  std::vector<Limit> limits_;
  std::vector<std::string> notes_;
};

}  // namespace castor::bench

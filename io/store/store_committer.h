// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <castor/memory/event.h>

#include "engine/serial_worker.h"
#include "manifest.h"
#include "store_monitor.h"
#include "store_op.h"
#include "store_ops.h"
#include "store_parts.h"
#include "store_values.h"

namespace castor {

/// Makes the values of a store durable, one commit at a time, and finds them again (docs/storage.md).
///
/// A commit raises the barrier; waits until no put runs; syncs the data files; replaces the manifest, which names the
/// data; and lifts the barrier. Only the syncs and the manifest touch the drive, on a thread of its own.
///
/// Invariant: `committed_step` is the step of the manifest on the drive. Where that is in doubt, after a failed sync or
/// a manifest that may or may not stand, the values are frozen (StoreValues::freeze) and no commit succeeds any more.
/// Threads: `restore` before all others; `start` and `committed_step` from any.
class StoreCommitter {
 public:
  struct Parts {
    StoreMonitor& monitor;
    StoreValues& values;
    StoreOps& ops;
    const StoreParts& store;  ///< with files; its engines must not go before this
  };
  struct Options {
    bool checksums = true;
    bool read_only = false;
    std::chrono::milliseconds timeout{0};  ///< of a sync; 0 = for ever
  };
  /// Called without the mutex: starts the puts that the barrier held.
  using OnLifted = std::function<void(OpsToStart& turn)>;

  StoreCommitter(const Parts& parts, const Options& options, OnLifted on_lifted);

  /// Takes over the values of the last commit, if there is one. Errors: those of StoreValues::restore.
  Result<void> restore();
  /// Begins the commit of `step` and completes `done` with its outcome. Blocks while an earlier one is under way.
  void start(std::uint64_t step, std::shared_ptr<HostEventState> done);
  /// The step of the last commit that is durable; nothing before the first.
  std::optional<std::uint64_t> committed_step() const;

 private:
  struct Commit {
    std::uint64_t step = 0;
    std::shared_ptr<HostEventState> done;  // owners: the worker and the caller's event
  };

  void run(const Commit& commit);
  Result<void> make_durable(std::uint64_t step);
  Result<Manifest> describe(std::uint64_t step) const;
  Result<void> sync_volumes();
  Result<void> write_manifest(const Manifest& manifest);
  Error freeze(const std::string& why);
  void promote(std::uint64_t step);
  void lift_barrier(const Commit& commit, const Result<void>& outcome);

  const Parts parts_;
  const Options options_;
  const OnLifted on_lifted_;
  std::optional<std::uint64_t> committed_step_;  // under the mutex
  SerialWorker<Commit> worker_;                  // last: it uses all of the above
};

}  // namespace castor

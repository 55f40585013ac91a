// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

#include <castor/memory/result.h>
#include <castor/memory/worker_thread.h>

namespace castor::bench {

/// The calling thread and others that sleep between calls; they take the parts of one piece of work in turn. Not the
/// HostTeam that trains: a ceiling must not be measured with the code it judges.
class Team {
 public:
  /// Does the part with that number; called by any of the threads.
  using Part = std::function<Result<void>(std::uint64_t)>;

  /// Errors: failed if the system grants fewer threads.
  static Result<std::unique_ptr<Team>> hire(unsigned n_threads);

  unsigned n_threads() const { return static_cast<unsigned>(workers_.size()) + 1; }
  /// Runs every part from 0 to `n_parts` − 1, then returns. Errors: that of one part that failed.
  Result<void> run(std::uint64_t n_parts, const Part& part);

 private:
  Team() = default;

  std::deque<WorkerThread> workers_;
};

}  // namespace castor::bench

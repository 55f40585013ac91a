// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

#include <castor/memory/result.h>
#include <castor/memory/worker_thread.h>

namespace castor::bench {

/// Threads that take the parts of one piece of work in turn: the calling one, and others that sleep in between. Not the
/// HostTeam that trains: ceilings must not be measured by what they are to judge.
class Team {
 public:
  /// Does the part of that number; called by any of the threads.
  using Part = std::function<Result<void>(std::uint64_t)>;

  /// Errors: failed, where the system gives fewer threads.
  static Result<std::unique_ptr<Team>> hire(unsigned n_threads);

  unsigned n_threads() const { return static_cast<unsigned>(workers_.size()) + 1; }
  /// Has every part from 0 to `n_parts` − 1 done and returns then. Errors: one of those that parts ended with.
  Result<void> run(std::uint64_t n_parts, const Part& part);

 private:
  Team() = default;

  std::deque<WorkerThread> workers_;
};

}  // namespace castor::bench

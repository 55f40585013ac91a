// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <castor/memory/event.h>
#include <castor/memory/stream.h>

namespace castor {

/// Threads that run jobs beside whoever hands them in: of those that can begin always the most urgent, also when a less
/// urgent one has begun already.
///
/// Its time is that of the whole team: seconds between two points are what the jobs handed in between them took, summed over
/// the threads and divided by their number.
///
/// Threads: one at a time hands in.
class HostTeam : public WorkTimer {
 public:
  struct Job {
    std::uint64_t urgency = 0;  ///< the lowest goes first; of equal ones the first handed in
    /// It begins when these are reached. Where one ended badly it is left out, and ends with that.
    std::vector<Event> after;
    std::uint32_t n_parts = 1;
    /// Called once for every part from 0 to n_parts − 1, in any order and at the same time; must not throw. The job ends
    /// with the first failure, and parts not begun by then are left out.
    std::function<Result<void>(std::uint32_t part)> run;
  };

  /// Queues `job`; returns the event of its end. What it holds is let go of before.
  virtual Event add(Job job) = 0;

  /// From now on at most `n_threads` > 0 of the threads run parts of jobs; those that do so go on to the end of theirs.
  virtual void limit_threads(unsigned n_threads) = 0;
};

/// `n_threads` > 0 threads, which sleep while there is nothing to do, and one more that finds out when what jobs wait for is
/// there. The destructor runs what is queued to its end. Errors: failed, where the system gives no thread.
Result<std::unique_ptr<HostTeam>> make_host_team(unsigned n_threads);

}  // namespace castor

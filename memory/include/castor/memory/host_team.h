// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <castor/memory/event.h>
#include <castor/memory/stream.h>

namespace castor {

/// Threads that run jobs beside the thread that adds them: of the jobs that can begin always the most urgent, also when
/// a less urgent one has begun already.
///
/// Its time is that of the whole team: the seconds between two points are the busy time of the jobs added between them,
/// summed over the threads and divided by their number.
///
/// Threads: one at a time adds jobs.
class HostTeam : public WorkTimer {
 public:
  struct Job {
    std::uint64_t urgency = 0;  ///< the lowest runs first; of equal ones the first added
    /// The job begins when these are reached. If one ended in a failure the job is left out, and ends with that
    /// failure.
    std::vector<Event> after;
    std::uint32_t n_parts = 1;
    /// Called once for every part from 0 to n_parts − 1, in any order and concurrently; must not throw. The job ends
    /// with the first failure, and parts not begun by then are left out.
    std::function<Result<void>(std::uint32_t part)> run;
    /// Bytes of memory that it reads and writes: its duration in a team of virtual time. Other teams ignore it.
    std::uint64_t touched_bytes = 0;
  };

  /// Queues `job`; returns the event of its end. `job.run` and `job.after` are destroyed before that event is reached.
  virtual Event add(Job job) = 0;

  /// Lets at most `n_threads` > 0 of the threads run parts of jobs from now on; parts that have begun run to their end.
  virtual void limit_threads(unsigned n_threads) = 0;
};

/// Makes a team of `n_threads` > 0 threads, which sleep while no job can run, and one more thread that watches the
/// events that jobs wait for. The threads leave the first `n_spared_cpus` to others (leave_cpus). The destructor runs all
/// queued jobs to their end. Errors: failed, where the system gives no thread.
Result<std::unique_ptr<HostTeam>> make_host_team(unsigned n_threads, unsigned n_spared_cpus = 0);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <castor/memory/event.h>
#include <castor/memory/stream.h>

#include <castor/schedule/virtual_links.h>

namespace castor {

/// A HostTeam of virtual time: works on one job at a time, and turns to a more urgent one as soon as that can begin.
class VirtualTeam final : public WorkTimer {
 public:
  /// Borrowed.
  explicit VirtualTeam(VirtualClock& clock)
      : world_(std::make_shared<World>(World{.clock = clock, .jobs = {}, .now_s = 0})) {}

  /// Adds a job that takes `seconds`; the lowest `urgency` runs first, among equals the job that was added first.
  Event add(std::uint64_t urgency, std::span<const Event> after, double seconds);
  /// When the jobs added so far have ended, as if none of them had to wait from now on.
  double busy_until_s() const;
  /// The sum of the seconds of all jobs added so far.
  std::unique_ptr<StreamTime> time() override;

  struct Job {
    std::uint64_t urgency = 0, number = 0;
    double from_s = 0;                              ///< earliest begin
    std::vector<std::shared_ptr<const Job>> after;  ///< jobs that must end first; owners: this, events, the queue
    double left_s = 0;
    double ended_s = -1;  ///< below 0: it has not ended
    bool ended() const { return ended_s >= 0; }
  };

  /// The state of the team's work.
  struct World {
    VirtualClock& clock;
    std::vector<std::shared_ptr<Job>> jobs;  ///< not ended, by urgency and number
    double now_s;

    /// Works until `until_s`, or until `job` has ended where one is named.
    void work(double until_s, const Job* job);

   private:
    std::shared_ptr<Job> most_urgent() const;
    double next_start_s() const;
  };

 private:
  const std::shared_ptr<World> world_;  // owners: this, and the events of its jobs
  std::uint64_t n_added_ = 0;
  double added_s_ = 0;
};

}  // namespace castor

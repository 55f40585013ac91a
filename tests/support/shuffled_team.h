// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <castor/memory/host_team.h>

namespace castor::test {

/// A team without threads: jobs run when an event of the team is waited for, in a random order among those that can
/// begin, so that an order that nothing enforces is seen to be broken.
class ShuffledTeam final : public HostTeam {
 public:
  explicit ShuffledTeam(std::uint64_t seed) : queue_(std::make_shared<Queue>(Queue{std::mt19937_64(seed), {}})) {}

  Event add(Job job) override {
    queue_->waiting.push_back(std::make_shared<Entry>(Entry{std::move(job), false, {}}));
    return Event(std::make_shared<End>(queue_, queue_->waiting.back()));
  }
  void limit_threads(unsigned) override {}
  std::unique_ptr<StreamTime> time() override { return std::make_unique<NoTime>(); }

 private:
  struct Entry {
    Job job;
    bool ended = false;
    Result<void> outcome;
  };

  struct Queue {
    std::mt19937_64 random;
    std::vector<std::shared_ptr<Entry>> waiting;

    /// Runs a job that can begin, if there is one.
    void run_one() {
      std::vector<std::shared_ptr<Entry>> can_begin;
      for (const auto& entry : waiting)
        if (std::all_of(entry->job.after.begin(), entry->job.after.end(), [](const Event& e) { return e.ready(); }))
          can_begin.push_back(entry);
      if (can_begin.empty()) return std::this_thread::sleep_for(std::chrono::microseconds(20));  // a copy is under way
      const auto entry = can_begin[random() % can_begin.size()];
      std::erase(waiting, entry);
      for (const Event& event : entry->job.after)
        if (auto before = event.wait(); entry->outcome.ok()) entry->outcome = std::move(before);
      for (std::uint32_t part = 0; part < entry->job.n_parts && entry->outcome.ok(); ++part)
        entry->outcome = entry->job.run(part);
      entry->job = {};
      entry->ended = true;
    }
  };

  class End final : public EventState {
   public:
    End(std::shared_ptr<Queue> queue, std::shared_ptr<Entry> entry)
        : queue_(std::move(queue)), entry_(std::move(entry)) {}
    bool ready() const override { return entry_->ended; }
    Result<void> wait() const override {
      while (!entry_->ended) queue_->run_one();
      return entry_->outcome;
    }

   private:
    const std::shared_ptr<Queue> queue_;
    const std::shared_ptr<Entry> entry_;
  };

  class NoTime final : public StreamTime {
   public:
    Result<double> seconds_since(const StreamTime&) const override { return 0.0; }
  };

  const std::shared_ptr<Queue> queue_;  // owners: this, and the events of its jobs
};

}  // namespace castor::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <castor/memory/host_team.h>

namespace castor::test {

/// A team without threads: a job runs when it is added, on the thread that adds it, and takes a stated time of the
/// team.
class InlineTeam final : public HostTeam {
 public:
  /// The test's side, while an engine owns the team.
  struct Record {
    std::uint64_t job_ns = 0;          ///< what each job takes
    std::vector<unsigned> limits = {}; ///< the limits that were set, in order
  };

  /// `record` is borrowed.
  explicit InlineTeam(Record& record) : record_(record) {}

  Event add(Job job) override {
    Result<void> outcome;
    for (const Event& event : job.after)
      if (auto ended = event.wait(); outcome.ok()) outcome = std::move(ended);
    for (std::uint32_t part = 0; part < job.n_parts && outcome.ok(); ++part) outcome = job.run(part);
    busy_ns_ += record_.job_ns;
    if (outcome.ok()) return Event();
    auto state = std::make_shared<HostEventState>();
    state->complete(std::move(outcome));
    return Event(std::move(state));
  }
  void limit_threads(unsigned n_threads) override { record_.limits.push_back(n_threads); }
  std::unique_ptr<StreamTime> time() override { return std::make_unique<BusyTime>(busy_ns_); }

 private:
  class BusyTime final : public StreamTime {
   public:
    explicit BusyTime(std::uint64_t ns) : ns_(ns) {}
    Result<double> seconds_since(const StreamTime& earlier) const override {
      return static_cast<double>(ns_ - dynamic_cast<const BusyTime&>(earlier).ns_) * 1e-9;
    }

   private:
    const std::uint64_t ns_;
  };

  Record& record_;
  std::uint64_t busy_ns_ = 0;
};

}  // namespace castor::test

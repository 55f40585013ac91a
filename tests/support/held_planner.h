// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include <castor/memory/device.h>
#include <castor/schedule/planner.h>

namespace castor::test {

/// Makes plans when the test says so, on the test's thread.
class HeldPlanner final : public Planner {
 public:
  Event run(WorkerThread::Task task) override {
    auto done = std::make_shared<HostEventState>();
    held_.emplace_back(std::move(task), done);
    return Event(std::move(done));
  }
  /// Runs all tasks held by now.
  void release() {
    for (auto& [task, done] : std::exchange(held_, {})) {
      auto outcome = task();
      task = nullptr;
      done->complete(std::move(outcome));
    }
  }
  std::size_t n_held() const { return held_.size(); }

 private:
  std::deque<std::pair<WorkerThread::Task, std::shared_ptr<HostEventState>>> held_;
};

/// Hands tasks on, for an engine that owns its planner.
class BorrowedPlanner final : public Planner {
 public:
  explicit BorrowedPlanner(Planner& planner) : planner_(planner) {}
  Event run(WorkerThread::Task task) override { return planner_.run(std::move(task)); }

 private:
  Planner& planner_;
};

// For Machine::make_planner and make_pinner.
inline auto lend(HeldPlanner& planner) {
  return [&planner](const Device&) { return std::make_unique<BorrowedPlanner>(planner); };
}
inline std::unique_ptr<Planner> planner_thread(const Device&) { return std::make_unique<PlannerThread>(); }

}  // namespace castor::test

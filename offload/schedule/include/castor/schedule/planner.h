// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <castor/memory/event.h>
#include <castor/memory/worker_thread.h>

namespace castor {

/// Runs the work of planning, which takes up to half a second.
class Planner {
 public:
  virtual ~Planner() = default;
  /// Runs `task`, which must not throw; returns the event of its end.
  [[nodiscard]] virtual Event run(WorkerThread::Task task) = 0;
};

/// Plans at once, on the thread that asks. In virtual time there is no other way, and a run repeats to the last
/// decision.
class InlinePlanner final : public Planner {
 public:
  Event run(WorkerThread::Task task) override {
    (void)task();
    return {};
  }
};

/// Plans on a thread of its own, in the order in which plans were asked for, while the training thread goes on.
class PlannerThread final : public Planner {
 public:
  Event run(WorkerThread::Task task) override { return worker_.run(std::move(task)); }

 private:
  WorkerThread worker_{"castor-plan"};
};

/// A value that a Planner makes. If the draft is destroyed before its turn, the value is not made; if it is destroyed
/// later, the value is discarded. Nothing waits for it.
///
/// Threads: the owner's. `make` runs on the planner's: it may read only what nothing changes until the planner is
/// destroyed, or what it holds itself.
template <typename T>
class Draft {
 public:
  Draft(Planner& planner, std::function<T()> make)
      : done_(planner.run([state = state_, make = std::move(make)]() -> Result<void> {
          if (!state->dropped) state->run(make);
          return {};
        })) {}
  ~Draft() { state_->dropped = true; }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  bool ready() const { return done_.ready(); }
  /// Waits until ready(), no longer than about `limit`.
  void wait_for(std::chrono::nanoseconds limit) const { (void)done_.wait_for(limit); }
  /// Throws what `make` threw. Requires: ready(), and no call before.
  T take() {
    if (state_->thrown) std::rethrow_exception(state_->thrown);
    return std::move(state_->made).value();
  }

 private:
  struct State {
    void run(const std::function<T()>& make) {
      try {
        made.emplace(make());
      } catch (...) {
        thrown = std::current_exception();
      }
    }
    std::atomic<bool> dropped = false;
    std::optional<T> made;  ///< this and `thrown` are the task's until its event is reached
    std::exception_ptr thrown;
  };

  const std::shared_ptr<State> state_ = std::make_shared<State>();  // owners: this and the task
  const Event done_;
};

}  // namespace castor

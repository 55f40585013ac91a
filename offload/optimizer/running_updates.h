// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <castor/memory/event.h>

namespace castor {

/// Updates that run beside the training thread, until their outcome is known.
///
/// Threads: one at a time.
class RunningUpdates {
 public:
  RunningUpdates() = default;
  RunningUpdates(const RunningUpdates&) = delete;
  RunningUpdates& operator=(const RunningUpdates&) = delete;
  /// Waits for the updates that are still running.
  ~RunningUpdates() {
    for (const Event& update : running_) (void)update.wait();
  }

  void add(Event update) { running_.push_back(std::move(update)); }

  /// The outcome of the updates that have ended so far; waits for none. Errors: that of the first failed update, from
  /// then on.
  [[nodiscard]] Result<void> ended() {
    std::erase_if(running_, [this](const Event& update) {
      if (!update.ready()) return false;
      if (auto outcome = update.wait(); failed_.ok()) failed_ = std::move(outcome);
      return true;
    });
    return failed_;
  }
  /// The updates that were running when ended() was called last.
  const std::vector<Event>& still_running() const { return running_; }
  /// Forgets the updates that have ended, whatever their outcome.
  void forget_ended() {
    std::erase_if(running_, [](const Event& update) { return update.ready(); });
  }

 private:
  std::vector<Event> running_;
  Result<void> failed_;
};

}  // namespace castor

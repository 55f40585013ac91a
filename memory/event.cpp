// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/event.h>

#include <castor/memory/clock.h>

namespace castor {

bool HostEventState::ready() const {
  const std::lock_guard lock(mutex_);
  return outcome_.has_value();
}

Result<void> HostEventState::wait() const {
  std::unique_lock lock(mutex_);
  reached_.wait(lock, [this] { return outcome_.has_value(); });
  return *outcome_;
}

bool HostEventState::wait_for(std::chrono::nanoseconds limit) const {
  std::unique_lock lock(mutex_);
  return reached_.wait_for(lock, limit, [this] { return outcome_.has_value(); });
}

std::optional<std::uint64_t> HostEventState::reached_ns() const {
  const std::lock_guard lock(mutex_);
  return outcome_ ? std::optional(reached_ns_) : std::nullopt;
}

void HostEventState::complete(Result<void> outcome) {
  {
    const std::lock_guard lock(mutex_);
    if (outcome_) throw ContractViolation("an event was completed twice");
    outcome_ = std::move(outcome);
    reached_ns_ = steady_now_ns();
  }
  reached_.notify_all();
}

}  // namespace castor

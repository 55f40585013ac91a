// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include <castor/memory/result.h>

namespace castor {

/// The point that an Event stands for: in a CUDA stream, in a host worker's queue, or the end of an I/O request.
class EventState {
 public:
  virtual ~EventState() = default;
  /// True once the point is reached; never blocks.
  virtual bool ready() const = 0;
  /// Blocks until the point is reached; returns the outcome of the work before it.
  virtual Result<void> wait() const = 0;
  /// Blocks until the point is reached or about `limit` has passed; true if the point is reached. A backend that has no
  /// such wait blocks as wait().
  virtual bool wait_for(std::chrono::nanoseconds limit) const { return static_cast<void>(limit), (void)wait(), true; }
  /// The time at which the point was reached, by steady_now_ns(); empty before, and where the backend does not know it.
  virtual std::optional<std::uint64_t> reached_ns() const { return std::nullopt; }
  /// True where this point is known to be reached after `other`: later in the same queue. Not where both are one point.
  virtual bool follows(const EventState& other) const { return static_cast<void>(other), false; }
};

/// A point in asynchronous work that can be waited for. Copies stand for the same point; a default-constructed Event is
/// reached already.
class Event {
 public:
  Event() = default;
  explicit Event(std::shared_ptr<const EventState> state) : state_(std::move(state)) {}

  bool ready() const { return !state_ || state_->ready(); }
  /// Blocks the calling thread. Errors: the failure of the work (a failed transfer, a lost device).
  Result<void> wait() const { return state_ ? state_->wait() : Result<void>(); }
  /// Blocks as EventState::wait_for; true once the point is reached.
  bool wait_for(std::chrono::nanoseconds limit) const { return !state_ || state_->wait_for(limit); }
  /// As EventState::reached_ns(); empty for a default-constructed Event.
  std::optional<std::uint64_t> reached_ns() const { return state_ ? state_->reached_ns() : std::nullopt; }
  /// The backend's part, for streams of the same backend; null for a default-constructed Event.
  const EventState* state() const { return state_.get(); }

 private:
  std::shared_ptr<const EventState> state_;  // owners: the events at this point, and the worker that completes it
};

/// An event that a host thread completes: a worker's queue entry, a reaped I/O request.
class HostEventState final : public EventState {
 public:
  bool ready() const override;
  Result<void> wait() const override;
  bool wait_for(std::chrono::nanoseconds limit) const override;
  std::optional<std::uint64_t> reached_ns() const override;
  /// Marks the point as reached, with its outcome. Requires: called once (ContractViolation).
  void complete(Result<void> outcome);

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable reached_;
  std::optional<Result<void>> outcome_;
  std::uint64_t reached_ns_ = 0;
};

}  // namespace castor

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

/// What an Event stands for: a point in a CUDA stream, in a host worker's queue, or the end of an I/O request.
class EventState {
 public:
  virtual ~EventState() = default;
  /// True once the point is reached; never blocks.
  virtual bool ready() const = 0;
  /// Blocks until the point is reached; returns how it ended.
  virtual Result<void> wait() const = 0;
  /// Blocks until the point is reached, or about as long as `limit`, where the backend can do less than wait(); true once
  /// it is reached.
  virtual bool wait_for(std::chrono::nanoseconds limit) const { return static_cast<void>(limit), (void)wait(), true; }
  /// When the point was reached, by steady_now_ns(); nothing before that, and where the backend does not know.
  virtual std::optional<std::uint64_t> reached_ns() const { return std::nullopt; }
};

/// A point in asynchronous work that can be waited for. Copies stand for the same point; an Event made by default is
/// reached already.
class Event {
 public:
  Event() = default;
  explicit Event(std::shared_ptr<const EventState> state) : state_(std::move(state)) {}

  bool ready() const { return !state_ || state_->ready(); }
  /// Blocks the calling thread. Errors: what the work ended with (a failed transfer, a lost device).
  Result<void> wait() const { return state_ ? state_->wait() : Result<void>(); }
  /// Blocks as EventState::wait_for; true once the point is reached.
  bool wait_for(std::chrono::nanoseconds limit) const { return !state_ || state_->wait_for(limit); }
  /// As EventState::reached_ns(); nothing of an Event that is reached by construction.
  std::optional<std::uint64_t> reached_ns() const { return state_ ? state_->reached_ns() : std::nullopt; }
  /// The backend's part, for streams of the same backend; null for an Event that is reached by construction.
  const EventState* state() const { return state_.get(); }

 private:
  std::shared_ptr<const EventState> state_;  // owners: whoever waits, and the worker that completes it
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

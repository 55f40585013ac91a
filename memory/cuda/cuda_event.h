// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include <castor/memory/event.h>

namespace castor {

class CudaClock;
class CudaEvents;

/// A point in a CUDA stream. Its event is taken for it, and given back with its last handle.
class CudaEventState final : public EventState, public std::enable_shared_from_this<CudaEventState> {
 public:
  /// `event`, of `events`, is about to be recorded in `stream`. `failure` is the stream's failure before this point, if
  /// any.
  CudaEventState(cudaEvent_t event, std::shared_ptr<CudaEvents> events, cudaStream_t stream, Result<void> failure,
                 std::weak_ptr<CudaClock> clock);
  ~CudaEventState() override;
  CudaEventState(const CudaEventState&) = delete;
  CudaEventState& operator=(const CudaEventState&) = delete;

  bool ready() const override;
  Result<void> wait() const override;
  bool wait_for(std::chrono::nanoseconds limit) const override;
  /// By the device's clock, which CudaClock relates to the host's.
  std::optional<std::uint64_t> reached_ns() const override;
  /// True of a later point of the same stream.
  bool follows(const EventState& other) const override;

  /// True where an earlier call found the point reached, without a failure of CUDA: costs nothing.
  bool known_reached() const { return reached_.load(std::memory_order_acquire); }

  cudaEvent_t event() const { return event_; }
  std::uint64_t recorded_ns() const { return recorded_ns_; }
  const Result<void>& failure() const { return failure_; }

 private:
  const cudaEvent_t event_;
  const std::shared_ptr<CudaEvents> events_;  // owners: the device, its streams and its events
  const cudaStream_t stream_;
  const std::uint64_t recorded_ns_;
  const Result<void> failure_;
  const std::weak_ptr<CudaClock> clock_;
  mutable std::atomic<bool> reached_ = false;  ///< without a failure of CUDA, which is not asked again then
};

}  // namespace castor

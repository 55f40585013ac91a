// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include <castor/memory/event.h>

namespace castor {

class CudaClock;

/// A point in a CUDA stream. The event is created per record (about a microsecond) and destroyed with its last handle.
class CudaEventState final : public EventState, public std::enable_shared_from_this<CudaEventState> {
 public:
  /// Takes `event`, which is about to be recorded. `failure` is the stream's failure before this point, if any.
  CudaEventState(cudaEvent_t event, Result<void> failure, std::weak_ptr<CudaClock> clock);
  ~CudaEventState() override { (void)cudaEventDestroy(event_); }
  CudaEventState(const CudaEventState&) = delete;
  CudaEventState& operator=(const CudaEventState&) = delete;

  bool ready() const override;
  Result<void> wait() const override;
  bool wait_for(std::chrono::nanoseconds limit) const override;
  /// By the device's clock, which CudaClock relates to the host's.
  std::optional<std::uint64_t> reached_ns() const override;

  cudaEvent_t event() const { return event_; }
  std::uint64_t recorded_ns() const { return recorded_ns_; }
  const Result<void>& failure() const { return failure_; }

 private:
  const cudaEvent_t event_;
  const std::uint64_t recorded_ns_;
  const Result<void> failure_;
  const std::weak_ptr<CudaClock> clock_;
  mutable std::atomic<bool> reached_ = false;  ///< once true, CUDA is not asked again
};

}  // namespace castor

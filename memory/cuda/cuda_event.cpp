// SPDX-License-Identifier: Apache-2.0
#include "cuda_event.h"

#include <chrono>
#include <thread>
#include <utility>

#include <castor/memory/clock.h>

#include "cuda_clock.h"
#include "cuda_error.h"
#include "cuda_events.h"

namespace castor {
namespace {

constexpr auto kPollPause = std::chrono::microseconds(20);

}  // namespace

CudaEventState::CudaEventState(cudaEvent_t event, std::shared_ptr<CudaEvents> events, cudaStream_t stream,
                               Result<void> failure, std::weak_ptr<CudaClock> clock)
    : event_(event),
      events_(std::move(events)),
      stream_(stream),
      recorded_ns_(steady_now_ns()),
      failure_(std::move(failure)),
      clock_(std::move(clock)) {}

CudaEventState::~CudaEventState() { events_->give_back(event_); }

bool CudaEventState::ready() const {
  if (known_reached()) return true;
  const cudaError_t answer = cudaEventQuery(event_);
  if (answer == cudaSuccess) reached_.store(true, std::memory_order_release);
  // "not ready" is no error, yet the next check of a kernel launch would report it
  if (answer == cudaErrorNotReady) (void)cudaGetLastError();
  return answer != cudaErrorNotReady;
}

Result<void> CudaEventState::wait() const {
  if (known_reached()) return failure_;
  auto outcome = cuda_result(cudaEventSynchronize(event_), "waiting for a CUDA event");
  if (outcome.ok()) reached_.store(true, std::memory_order_release);
  return failure_.ok() ? outcome : failure_;
}

/// CUDA has no wait with a limit, so this one polls.
bool CudaEventState::wait_for(std::chrono::nanoseconds limit) const {
  for (const auto deadline = std::chrono::steady_clock::now() + limit; !ready();) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPollPause);
  }
  return true;
}

bool CudaEventState::follows(const EventState& other) const {
  const auto* cuda = dynamic_cast<const CudaEventState*>(&other);
  return cuda && cuda->stream_ == stream_ && cuda->recorded_ns_ < recorded_ns_;
}

std::optional<std::uint64_t> CudaEventState::reached_ns() const {
  const auto clock = clock_.lock();
  return clock && ready() ? clock->reached_ns(shared_from_this()) : std::nullopt;
}

}  // namespace castor

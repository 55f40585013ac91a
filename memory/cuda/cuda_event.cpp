// SPDX-License-Identifier: Apache-2.0
#include "cuda_event.h"

#include <chrono>
#include <thread>
#include <utility>

#include <castor/memory/clock.h>

#include "cuda_clock.h"
#include "cuda_error.h"

namespace castor {
namespace {

constexpr auto kPollPause = std::chrono::microseconds(20);

}  // namespace

CudaEventState::CudaEventState(cudaEvent_t event, Result<void> failure, std::weak_ptr<CudaClock> clock)
    : event_(event), recorded_ns_(steady_now_ns()), failure_(std::move(failure)), clock_(std::move(clock)) {}

bool CudaEventState::ready() const {
  if (reached_.load(std::memory_order_acquire)) return true;
  if (cudaEventQuery(event_) == cudaErrorNotReady) {
    (void)cudaGetLastError();  // "not ready" is no error, yet the next check of a kernel launch would report it
    return false;
  }
  reached_.store(true, std::memory_order_release);
  return true;
}

Result<void> CudaEventState::wait() const {
  auto outcome = cuda_result(cudaEventSynchronize(event_), "waiting for a CUDA event");
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

std::optional<std::uint64_t> CudaEventState::reached_ns() const {
  const auto clock = clock_.lock();
  return clock && ready() ? clock->reached_ns(shared_from_this()) : std::nullopt;
}

}  // namespace castor

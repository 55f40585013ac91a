// SPDX-License-Identifier: Apache-2.0
#include "cuda_clock.h"

#include <cmath>

#include <castor/memory/clock.h>

#include "cuda_event.h"

namespace castor {
namespace {

/// Seconds from the base beyond which a distance loses half a microsecond: CUDA returns it in 24 bits of milliseconds.
constexpr double kFarthest = 4;

}  // namespace

std::optional<std::uint64_t> CudaClock::reached_ns(const std::shared_ptr<const CudaEventState>& event) {
  const std::lock_guard lock(mutex_);
  if (!base_) base_ = event, bridge_.emplace(event->recorded_ns());
  float ms = 0;
  if (cudaEventElapsedTime(&ms, base_->event(), event->event()) != cudaSuccess) return std::nullopt;
  const double distance_s = static_cast<double>(ms) * 1e-3;
  const std::uint64_t ns = bridge_->place(distance_s, event->recorded_ns(), steady_now_ns());
  if (std::abs(distance_s) > kFarthest) base_ = event, bridge_->move_base(distance_s);
  return ns;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "../clock_bridge.h"

namespace castor {

class CudaEventState;

/// Relates the clock of one GPU, which times its events, to the host's. CUDA gives the distance between two events to
/// half a microsecond; the host knows that each event was recorded before it was reached, and reached before it was
/// seen to be.
///
/// Threads: any.
class CudaClock {
 public:
  /// The time at which `event` was reached, by steady_now_ns(); empty where CUDA does not know. Requires: it is
  /// reached.
  std::optional<std::uint64_t> reached_ns(const std::shared_ptr<const CudaEventState>& event);

 private:
  std::mutex mutex_;
  std::shared_ptr<const CudaEventState> base_;  // owners: this, and all that wait for it; guarded by mutex_
  std::optional<ClockBridge> bridge_;           // guarded by mutex_
};

}  // namespace castor

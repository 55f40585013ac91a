// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "../clock_bridge.h"

namespace castor {

class CudaEventState;

/// The clock of one GPU, by which its events were reached. CUDA tells how far apart two events are, to half a microsecond;
/// the host knows of each that it was recorded before it was reached, and reached before it was seen to be.
///
/// Threads: any.
class CudaClock {
 public:
  /// By steady_now_ns(); nothing where CUDA does not know. Requires: `event` is reached.
  std::optional<std::uint64_t> reached_ns(const std::shared_ptr<const CudaEventState>& event);

 private:
  std::mutex mutex_;
  std::shared_ptr<const CudaEventState> base_;  // owners: this, and whoever waits for it; guarded by mutex_
  std::optional<ClockBridge> bridge_;           // guarded by mutex_
};

}  // namespace castor

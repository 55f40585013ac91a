// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <mutex>
#include <vector>

#include <castor/memory/result.h>

namespace castor {

/// Events of one GPU, which are recorded again and again: to create and to destroy one takes a microsecond each.
///
/// Threads: any.
class CudaEvents {
 public:
  CudaEvents() = default;
  ~CudaEvents();
  CudaEvents(const CudaEvents&) = delete;
  CudaEvents& operator=(const CudaEvents&) = delete;

  /// An unused event, or a new one of the current device. Errors: failed.
  Result<cudaEvent_t> take();
  /// Requires: nothing waits for `event` by its handle any more.
  void give_back(cudaEvent_t event);

 private:
  std::mutex mutex_;
  std::vector<cudaEvent_t> unused_;  // guarded by mutex_
};

}  // namespace castor

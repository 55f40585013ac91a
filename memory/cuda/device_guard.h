// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace castor {

/// Makes CUDA device `ordinal` current for the calling thread while it lives. Threads start on device 0, and calls that
/// name no device (allocations, event creation, anything on the default stream) go to the current one.
class DeviceGuard {
 public:
  explicit DeviceGuard(int ordinal) {
    (void)cudaGetDevice(&previous_);
    changed_ = previous_ != ordinal;
    if (changed_) (void)cudaSetDevice(ordinal);
  }
  ~DeviceGuard() {
    if (changed_) (void)cudaSetDevice(previous_);
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
};

}  // namespace castor

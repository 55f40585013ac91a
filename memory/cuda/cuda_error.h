// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include <castor/memory/result.h>

namespace castor {

/// `status` as a Result; the message is `doing`, then CUDA's answer.
inline Result<void> cuda_result(cudaError_t status, const std::string& doing, ErrorKind kind = ErrorKind::failed) {
  if (status == cudaSuccess) return {};
  (void)cudaGetLastError();  // a refused call must not be reported again by the next kernel launch
  return Error{kind, doing + ": " + cudaGetErrorString(status) + " (CUDA error " +
                         std::to_string(static_cast<int>(status)) + ")"};
}

}  // namespace castor

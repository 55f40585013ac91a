// SPDX-License-Identifier: Apache-2.0
#include "cuda_events.h"

#include "cuda_error.h"

namespace castor {

CudaEvents::~CudaEvents() {
  for (const cudaEvent_t event : unused_) (void)cudaEventDestroy(event);
}

Result<cudaEvent_t> CudaEvents::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!unused_.empty()) {
      const cudaEvent_t event = unused_.back();
      unused_.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  CASTOR_TRY(cuda_result(cudaEventCreate(&event), "creating a CUDA event"));
  return event;
}

void CudaEvents::give_back(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  unused_.push_back(event);
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "cuda_kernels.h"

namespace castor {

Result<std::unique_ptr<AdamKernel>> make_adam(const Device& device) {
  if (!device.runs_host_kernels()) return kernels::make_cuda_adam();
  return make_host_adam();
}

Result<std::unique_ptr<SgdKernel>> make_sgd(const Device& device) {
  if (!device.runs_host_kernels()) return kernels::make_cuda_sgd();
  return make_host_sgd();
}

Result<std::unique_ptr<LambKernel>> make_lamb(const Device& device) {
  if (!device.runs_host_kernels()) return kernels::make_cuda_lamb();
  return make_host_lamb();
}

Result<std::unique_ptr<GradNormKernel>> make_grad_norm(const Device& device) {
  if (!device.runs_host_kernels()) return kernels::make_cuda_grad_norm();
  return make_host_grad_norm();
}

Result<std::unique_ptr<DirectionNormKernel>> make_direction_norm(const Device& device) {
  if (!device.runs_host_kernels()) return kernels::make_cuda_direction_norm();
  return make_host_direction_norm();
}

Result<std::unique_ptr<TrustKernel>> make_trust(const Device& device) {
  if (!device.runs_host_kernels()) return kernels::make_cuda_trust();
  return make_host_trust();
}

Result<std::unique_ptr<GradAccumulator>> make_accumulator(const Device& device) {
  if (!device.runs_host_kernels()) return kernels::make_cuda_accumulator();
  return make_host_accumulator();
}

}  // namespace castor

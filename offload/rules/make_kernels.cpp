// SPDX-License-Identifier: Apache-2.0
#include "cuda_kernels.h"
#include "idle_kernels.h"

namespace castor {
namespace {

/// The kernel for the device's data, from one of three makers.
template <class Kernel>
Result<std::unique_ptr<Kernel>> make(const Device& device, std::unique_ptr<Kernel> (*on_host)(),
                                     Result<std::unique_ptr<Kernel>> (*on_gpu)(),
                                     std::unique_ptr<Kernel> (*idle)()) {
  switch (device.kernels()) {
    case KernelPlace::host: return on_host();
    case KernelPlace::gpu: return on_gpu();
    case KernelPlace::nowhere: return idle();
  }
  return on_host();
}

}  // namespace

Result<std::unique_ptr<AdamKernel>> make_adam(const Device& device) {
  return make<AdamKernel>(device, make_host_adam, kernels::make_cuda_adam, kernels::make_idle_adam);
}

Result<std::unique_ptr<SgdKernel>> make_sgd(const Device& device) {
  return make<SgdKernel>(device, make_host_sgd, kernels::make_cuda_sgd, kernels::make_idle_sgd);
}

Result<std::unique_ptr<LambKernel>> make_lamb(const Device& device) {
  return make<LambKernel>(device, make_host_lamb, kernels::make_cuda_lamb, kernels::make_idle_lamb);
}

Result<std::unique_ptr<GradNormKernel>> make_grad_norm(const Device& device) {
  return make<GradNormKernel>(device, make_host_grad_norm, kernels::make_cuda_grad_norm, kernels::make_idle_grad_norm);
}

Result<std::unique_ptr<DirectionNormKernel>> make_direction_norm(const Device& device) {
  return make<DirectionNormKernel>(device, make_host_direction_norm, kernels::make_cuda_direction_norm,
                                   kernels::make_idle_direction_norm);
}

Result<std::unique_ptr<TrustKernel>> make_trust(const Device& device) {
  return make<TrustKernel>(device, make_host_trust, kernels::make_cuda_trust, kernels::make_idle_trust);
}

Result<std::unique_ptr<GradAccumulator>> make_accumulator(const Device& device) {
  return make<GradAccumulator>(device, make_host_accumulator, kernels::make_cuda_accumulator,
                               kernels::make_idle_accumulator);
}

}  // namespace castor

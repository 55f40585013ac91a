// SPDX-License-Identifier: Apache-2.0
#include "cuda_kernels.h"

namespace castor::kernels {
namespace {

Error no_cuda(const char* kernel) {
  return {ErrorKind::failed,
          std::string(kernel) +
              " for a GPU: this Castor was built without CUDA; use `device` cpu, or rebuild where nvcc is installed "
              "(-Dcuda=enabled)",
          "device"};
}

}  // namespace

Result<std::unique_ptr<AdamKernel>> make_cuda_adam() { return no_cuda("Adam"); }

Result<std::unique_ptr<SgdKernel>> make_cuda_sgd() { return no_cuda("SGD"); }

Result<std::unique_ptr<LambKernel>> make_cuda_lamb() { return no_cuda("LAMB"); }

Result<std::unique_ptr<GradNormKernel>> make_cuda_grad_norm() { return no_cuda("the gradient norm"); }

Result<std::unique_ptr<DirectionNormKernel>> make_cuda_direction_norm() { return no_cuda("the norm of updates"); }

Result<std::unique_ptr<TrustKernel>> make_cuda_trust() { return no_cuda("the trust ratio"); }

Result<std::unique_ptr<GradAccumulator>> make_cuda_accumulator() { return no_cuda("summing gradients"); }

}  // namespace castor::kernels

// SPDX-License-Identifier: Apache-2.0
#include "cuda_kernels.h"
#include "elements/sgd_element.h"
#include "cuda_launch.h"

namespace castor::kernels {
namespace {

constexpr unsigned kThreads = 256;

template <typename Arrays>
__global__ void __launch_bounds__(kThreads) update_elements(const SgdCoefficients c, const Arrays arrays) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < arrays.n) update_sgd_element(c, arrays, i);
}

template <typename Arrays>
cudaError_t launch_update(Stream& stream, const SgdCoefficients& c, const Arrays& arrays) {
  const std::uint64_t n_blocks = (arrays.n + kThreads - 1) / kThreads;
  return launch(stream, n_blocks, kThreads, update_elements<Arrays>, c, arrays);
}

class CudaSgd final : public SgdKernel {
 public:
  Result<void> update(Stream& stream, const SgdCoefficients& coefficients, const UpdateArrays& arrays) override {
    if (arrays.n == 0) return {};
    CASTOR_ASSIGN(const int device, device_of(arrays.exp_avg, "SGD on the GPU: the momentum"));
    const CurrentDevice current(device);
    const cudaError_t status =
        with_types(arrays, [&](const auto& typed) { return launch_update(stream, coefficients, typed); });
    return cuda_result(status, "SGD on the GPU: updating " + std::to_string(arrays.n) + " elements");
  }
};

}  // namespace

Result<std::unique_ptr<SgdKernel>> make_cuda_sgd() {
  return std::unique_ptr<SgdKernel>(std::make_unique<CudaSgd>());
}

}  // namespace castor::kernels

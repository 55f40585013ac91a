// SPDX-License-Identifier: Apache-2.0
#include "../adam_element.h"
#include "../cuda_kernels.h"
#include "cuda_launch.h"

namespace castor::kernels {
namespace {

constexpr unsigned kThreads = 256;

/// One element per thread: neighbours read neighbours, and thousands of threads in flight keep the memory busy.
template <typename Arrays>
__global__ void __launch_bounds__(kThreads) update_elements(const AdamCoefficients c, const Arrays arrays) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= arrays.n) return;
  AdamElement e = with_moments(c, arrays.load_grad(i), arrays.load(i));
  e.master = next_master(c, e, sqrtf(e.exp_avg_sq));
  arrays.store(i, {canonical(e.master), canonical(e.exp_avg), canonical(e.exp_avg_sq)}, c.rounding_key);
}

template <typename Arrays>
cudaError_t launch_update(Stream& stream, const AdamCoefficients& c, const Arrays& arrays) {
  const std::uint64_t n_blocks = (arrays.n + kThreads - 1) / kThreads;
  return launch(stream, n_blocks, kThreads, update_elements<Arrays>, c, arrays);
}

class CudaAdam final : public AdamKernel {
 public:
  Result<void> update(Stream& stream, const AdamCoefficients& coefficients, const AdamArrays& arrays) override {
    if (arrays.n == 0) return {};
    CASTOR_ASSIGN(const int device, device_of(arrays.exp_avg, "Adam on the GPU: exp_avg"));
    const CurrentDevice current(device);
    const cudaError_t status =
        with_types(arrays, [&](const auto& typed) { return launch_update(stream, coefficients, typed); });
    return cuda_result(status, "Adam on the GPU: updating " + std::to_string(arrays.n) + " elements");
  }
};

}  // namespace

Result<std::unique_ptr<AdamKernel>> make_cuda_adam() {
  return std::unique_ptr<AdamKernel>(std::make_unique<CudaAdam>());
}

}  // namespace castor::kernels

// SPDX-License-Identifier: Apache-2.0
#include "cuda_kernels.h"
#include "elements/formats.h"
#include "cuda_launch.h"

namespace castor::kernels {
namespace {

constexpr unsigned kThreads = 256;

/// sum[i] = grad[i], or sum[i] + grad[i], in fp32.
template <typename Grad, bool kAdd>
__global__ void __launch_bounds__(kThreads) accumulate(float* sum, const typename Grad::Bits* grad, std::uint64_t n) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float value = Grad::widen(grad[i]);
  sum[i] = kAdd ? canonical(sum[i] + value) : value;
}

template <bool kAdd>
Result<void> queue(Stream& stream, float* sum, const void* grad, DType dtype, std::uint64_t n) {
  if (n == 0) return {};
  CASTOR_ASSIGN(const int device, device_of(sum, "summing gradients on the GPU: the sum"));
  const CurrentDevice current(device);
  const std::uint64_t n_blocks = (n + kThreads - 1) / kThreads;
  const cudaError_t status = with_format(dtype, [&](auto format) {
    using Grad = decltype(format);
    return launch(stream, n_blocks, kThreads, accumulate<Grad, kAdd>, sum,
                  static_cast<const typename Grad::Bits*>(grad), n);
  });
  return cuda_result(status, "summing gradients on the GPU: " + std::to_string(n) + " elements");
}

class CudaAccumulator final : public GradAccumulator {
 public:
  Result<void> widen(Stream& stream, float* sum, const void* grad, DType dtype, std::uint64_t n) override {
    return queue<false>(stream, sum, grad, dtype, n);
  }
  Result<void> add(Stream& stream, float* sum, const void* grad, DType dtype, std::uint64_t n) override {
    return queue<true>(stream, sum, grad, dtype, n);
  }
};

}  // namespace

Result<std::unique_ptr<GradAccumulator>> make_cuda_accumulator() {
  return std::unique_ptr<GradAccumulator>(std::make_unique<CudaAccumulator>());
}

}  // namespace castor::kernels

// SPDX-License-Identifier: Apache-2.0
#include "../adam_element.h"
#include "../cuda_kernels.h"
#include "../formats.h"
#include "cuda_launch.h"

namespace castor::kernels {
namespace {

constexpr unsigned kThreads = 256;

/// One element per thread: neighbours read neighbours, and thousands of threads in flight keep the memory busy.
template <typename Grad, typename Weight, bool kDecoupled>
__global__ void __launch_bounds__(kThreads) update_elements(const AdamCoefficients c, const AdamArrays arrays) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= arrays.n) return;
  const auto grad = static_cast<const typename Grad::Bits*>(arrays.grad)[i];
  const auto e =
      with_moments<kDecoupled>(c, Grad::widen(grad), {arrays.master[i], arrays.exp_avg[i], arrays.exp_avg_sq[i]});
  const float p = canonical(next_master<kDecoupled>(c, e, sqrtf(e.exp_avg_sq)));
  arrays.master[i] = p;
  arrays.exp_avg[i] = canonical(e.exp_avg);
  arrays.exp_avg_sq[i] = canonical(e.exp_avg_sq);
  static_cast<typename Weight::Bits*>(arrays.weight)[i] = Weight::narrow(p);
}

template <typename Grad, typename Weight>
cudaError_t launch_update(Stream& stream, const AdamCoefficients& c, const AdamArrays& arrays) {
  const std::uint64_t n_blocks = (arrays.n + kThreads - 1) / kThreads;
  const auto kernel = c.decoupled_decay ? update_elements<Grad, Weight, true> : update_elements<Grad, Weight, false>;
  return launch(stream, n_blocks, kThreads, kernel, c, arrays);
}

class CudaAdam final : public AdamKernel {
 public:
  Result<void> update(Stream& stream, const AdamCoefficients& coefficients, const AdamArrays& arrays) override {
    if (arrays.n == 0) return {};
    CASTOR_ASSIGN(const int device, device_of(arrays.master, "Adam on the GPU: the master"));
    const CurrentDevice current(device);
    const cudaError_t status = with_format(arrays.grad_dtype, [&](auto grad) {
      return with_format(arrays.weight_dtype, [&](auto weight) {
        return launch_update<decltype(grad), decltype(weight)>(stream, coefficients, arrays);
      });
    });
    return cuda_result(status, "Adam on the GPU: updating " + std::to_string(arrays.n) + " elements");
  }
};

}  // namespace

Result<std::unique_ptr<AdamKernel>> make_cuda_adam() {
  return std::unique_ptr<AdamKernel>(std::make_unique<CudaAdam>());
}

}  // namespace castor::kernels

// SPDX-License-Identifier: Apache-2.0
#include "../cuda_kernels.h"
#include "../formats.h"
#include "../norm_order.h"
#include "cuda_launch.h"
#include "cuda_scratch.h"

namespace castor::kernels {
namespace {

/// A thread is a lane, a block of threads a block of the norm: its sum goes to `sums[blockIdx.x]`.
template <typename Grad>
__global__ void __launch_bounds__(kNormLanes)
    sum_blocks(const typename Grad::Bits* grad, std::uint64_t n, double* sums) {
  __shared__ double lanes[kNormLanes];
  const std::uint64_t start = blockIdx.x * kNormBlock;
  const std::uint64_t end = start + kNormBlock < n ? start + kNormBlock : n;
  double sum = 0;
#pragma unroll 8
  for (std::uint64_t i = start + threadIdx.x; i < end; i += kNormLanes) sum += square(Grad::widen(grad[i]));
  lanes[threadIdx.x] = sum;
  for (unsigned half = kNormLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) lanes[threadIdx.x] += lanes[threadIdx.x + half];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = lanes[0];
}

/// Writes the sum of all to `total`, added in order by one thread.
__global__ void add_in_order(const double* sums, std::uint64_t n_blocks, double* total) {
  double sum = 0;
#pragma unroll 16
  for (std::uint64_t block = 0; block < n_blocks; ++block) sum += sums[block];
  *total = canonical_sum(sum);
}

/// Queues both kernels; `total` may be `sums`, which has room for every block of the tensor.
cudaError_t launch_sum(Stream& stream, const void* grad, DType dtype, std::uint64_t n, double* sums, double* total) {
  const cudaError_t status = with_format(dtype, [&](auto format) {
    using Grad = decltype(format);
    return launch(stream, n_norm_blocks(n), kNormLanes, sum_blocks<Grad>, static_cast<const typename Grad::Bits*>(grad),
                  n, sums);
  });
  return status != cudaSuccess ? status : launch(stream, 1, 1, add_in_order, sums, n_norm_blocks(n), total);
}

/// `sum` as a kernel may write to it, which saves a copy; null where it is in ordinary memory.
double* reached_by_gpu(double* sum) {
  cudaPointerAttributes attributes = {};
  if (cudaPointerGetAttributes(&attributes, sum) != cudaSuccess) return (void)cudaGetLastError(), nullptr;
  return attributes.type == cudaMemoryTypeHost || attributes.type == cudaMemoryTypeDevice
             ? static_cast<double*>(attributes.devicePointer)
             : nullptr;
}

class CudaGradNorm final : public GradNormKernel {
 public:
  Result<void> sum_of_squares(Stream& stream, const void* grad, DType dtype, std::uint64_t n, double* sum) override {
    if (n == 0) {
      (void)stream.copy(sum, &kNothing, sizeof(double));  // a failure stays with the stream
      return {};
    }
    const std::string doing = "gradient norm on the GPU: summing " + std::to_string(n) + " elements";
    CASTOR_ASSIGN(const int device, device_of(grad, "gradient norm on the GPU: the gradient"));
    const CurrentDevice current(device);
    CASTOR_ASSIGN(double* const sums, scratch_.room(device, n_norm_blocks(n)));
    double* const reached = reached_by_gpu(sum);
    CASTOR_TRY(cuda_result(launch_sum(stream, grad, dtype, n, sums, reached ? reached : sums), doing));
    if (reached) return {};
    return cuda_result(cudaMemcpyAsync(sum, sums, sizeof(double), cudaMemcpyDefault,
                                       static_cast<cudaStream_t>(stream.native_handle())),
                       doing);
  }

 private:
  static constexpr double kNothing = 0;

  Scratch scratch_{"gradient norm on the GPU", 256};  // blocks of a tensor of 16 Mi elements
};

}  // namespace

Result<std::unique_ptr<GradNormKernel>> make_cuda_grad_norm() {
  return std::unique_ptr<GradNormKernel>(std::make_unique<CudaGradNorm>());
}

}  // namespace castor::kernels

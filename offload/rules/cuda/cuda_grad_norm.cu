// SPDX-License-Identifier: Apache-2.0
#include "cuda_kernels.h"
#include "elements/formats.h"
#include "cuda_norm_tree.cuh"
#include "cuda_scratch.h"

namespace castor::kernels {
namespace {

/// One block of threads sums one block of the norm, into `sums[blockIdx.x]`.
template <typename Grad>
__global__ void __launch_bounds__(kNormFan)
    sum_blocks(const typename Grad::Bits* grad, std::uint64_t n, double* sums) {
  __shared__ double rows[kNormFan];
  const unsigned lane = threadIdx.x % kWarp;
#pragma unroll 4
  for (unsigned row = threadIdx.x / kWarp; row < kNormFan; row += kRowsAtOnce) {
    const std::uint64_t first = blockIdx.x * kNormBlock + row * kNormRow + lane;
    double squares[kPerLane];
#pragma unroll
    for (unsigned k = 0; k < kPerLane; ++k)
      squares[k] = first + k * kWarp < n ? square(Grad::widen(grad[first + k * kWarp])) : 0;
    const double sum = fold_row(squares);
    if (lane == 0) rows[row] = sum;
  }
  const double sum = fold_node(rows);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// Queues the sum of `n` > 0 elements, into `total`, which may be `tree`; `tree` has room for tree_doubles.
cudaError_t launch_sum(Stream& stream, const void* grad, DType dtype, std::uint64_t n, double* tree, double* total) {
  const cudaError_t status = with_format(dtype, [&](auto format) {
    using Grad = decltype(format);
    return launch(stream, n_norm_blocks(n), kNormFan, sum_blocks<Grad>, static_cast<const typename Grad::Bits*>(grad),
                  n, tree);
  });
  return status != cudaSuccess ? status : fold_blocks(stream, tree, n_norm_blocks(n), 1, total);
}

/// The address by which a kernel can write `sum` itself, which saves a copy; null where `sum` is in ordinary memory.
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
    CASTOR_ASSIGN(double* const sums, scratch_.room(device, tree_doubles(n_norm_blocks(n), 1)));
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

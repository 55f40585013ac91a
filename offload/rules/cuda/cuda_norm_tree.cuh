// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "elements/norm_order.h"
#include "cuda_launch.h"

/// The nodes of the norm's tree (grad_norm.h) on a GPU: a warp folds a row, a block of kNormFan threads a node above
/// rows.
namespace castor::kernels {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kRowsAtOnce = kNormFan / kWarp;  ///< by a block of threads
inline constexpr unsigned kPerLane = kNormRow / kWarp;     ///< elements of a row

/// Folds a row: square number `lane` + kWarp·k is in `squares[k]` of each lane, 0 where there is none. Lane 0 returns
/// the sum.
__device__ inline double fold_row(double (&squares)[kPerLane]) {
#pragma unroll
  for (unsigned half = kPerLane / 2; half > 0; half /= 2)
#pragma unroll
    for (unsigned k = 0; k < half; ++k) squares[k] += squares[k + half];
  double sum = squares[0];
#pragma unroll
  for (unsigned half = kWarp / 2; half > 0; half /= 2) sum += __shfl_down_sync(0xffffffff, sum, half);
  return sum;
}

/// Folds a node over `children` in shared memory, kNormFan of them with 0 where there is none, and overwrites them.
/// Thread 0 returns the sum.
__device__ inline double fold_node(double* children) {
  for (unsigned half = kNormFan / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) children[threadIdx.x] += children[threadIdx.x + half];
  }
  return children[0];
}

/// Folds one level of the tree over several series of `n` children each. One series follows the other, and so do the
/// nodes.
static __global__ void __launch_bounds__(kNormFan)
    fold_level(const double* children, std::uint64_t n, double* nodes, std::uint64_t n_nodes) {
  __shared__ double own[kNormFan];
  const std::uint64_t series = blockIdx.x / n_nodes, child = blockIdx.x % n_nodes * kNormFan + threadIdx.x;
  own[threadIdx.x] = child < n ? children[series * n + child] : 0;
  const double sum = fold_node(own);
  if (threadIdx.x == 0) nodes[blockIdx.x] = n_nodes == 1 ? canonical_sum(sum) : sum;
}

/// Doubles that fold_blocks needs for `n_series` tensors of `n_blocks` blocks each.
constexpr std::uint64_t tree_doubles(std::uint64_t n_blocks, std::uint64_t n_series) {
  std::uint64_t n_doubles = n_series * n_blocks;
  for (; n_blocks > kNormFan; n_doubles += n_series * n_blocks) n_blocks = n_norm_nodes(n_blocks);
  return n_doubles;
}

/// Queues the folding of the `n_blocks` >= 1 block sums of each series at `tree`, which has room for tree_doubles. The
/// sum of each series goes to `totals`, which may be `tree` where there is one series.
inline cudaError_t fold_blocks(Stream& stream, double* tree, std::uint64_t n_blocks, std::uint64_t n_series,
                               double* totals) {
  for (std::uint64_t n = n_blocks;;) {
    const std::uint64_t n_nodes = n_norm_nodes(n);
    double* const nodes = n_nodes == 1 ? totals : tree + n_series * n;
    const cudaError_t status =
        launch(stream, n_series * n_nodes, kNormFan, fold_level, static_cast<const double*>(tree), n, nodes, n_nodes);
    if (status != cudaSuccess || n_nodes == 1) return status;
    tree = nodes;
    n = n_nodes;
  }
}

}  // namespace castor::kernels

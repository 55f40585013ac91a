// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "cuda_kernels.h"
#include "elements/lamb_element.h"
#include "cuda_norm_tree.cuh"
#include "cuda_scratch.h"

namespace castor::kernels {
namespace {

/// How the elements of a part fall into blocks of the norm: a piece holds the elements that the part has of one block.
/// Sums and rows are those of masters, then those of directions.
struct Pieces {
  std::uint64_t n_first;    ///< elements in the first piece
  unsigned first_row;       ///< of the first piece in its block; the rows before it are carried over
  bool open;                ///< the last piece's block continues in the next part
  const double* carried;    ///< kNormFan rows of masters, then of directions, from the part before
  double* carry;            ///< the same for the next part; other memory, since blocks of threads run at the same time
  std::uint64_t first_block, n_blocks;  ///< of the first piece; of the tensor
  double* sums;             ///< n_blocks of masters, then of directions
};

/// One block of threads sums one piece.
template <typename Arrays>
__global__ void __launch_bounds__(kNormFan)
    sum_pieces(const AdamCoefficients c, const Arrays arrays, const Pieces pieces) {
  __shared__ double masters[kNormFan], directions[kNormFan];
  const unsigned piece = blockIdx.x, thread = threadIdx.x, lane = thread % kWarp;
  const std::uint64_t start = piece == 0 ? 0 : pieces.n_first + (piece - 1) * kNormBlock;
  const std::uint64_t whole_end = pieces.n_first + piece * kNormBlock;
  const std::uint64_t end = whole_end < arrays.n ? whole_end : arrays.n;
  const unsigned first_row = piece == 0 ? pieces.first_row : 0;
  const bool carried = thread < first_row;
  masters[thread] = carried ? pieces.carried[thread] : 0;
  directions[thread] = carried ? pieces.carried[kNormFan + thread] : 0;
  __syncthreads();
  for (unsigned row = thread / kWarp; row < n_norm_rows(end - start); row += kRowsAtOnce) {
    double p[kPerLane], r[kPerLane];
#pragma unroll
    for (unsigned k = 0; k < kPerLane; ++k) {
      const std::uint64_t i = start + row * kNormRow + lane + k * kWarp;
      p[k] = r[k] = 0;
      if (i >= end) continue;
      const AdamElement e = with_moments(c, arrays.load_grad(i), arrays.load(i));
      p[k] = square(e.master);
      r[k] = square(lamb_direction(c, e, sqrtf(e.exp_avg_sq)));
    }
    const double master = fold_row(p), direction = fold_row(r);
    if (lane == 0) masters[first_row + row] = master, directions[first_row + row] = direction;
  }
  if (piece + 1 == gridDim.x && pieces.open) {
    __syncthreads();
    pieces.carry[thread] = masters[thread];
    pieces.carry[kNormFan + thread] = directions[thread];
    return;
  }
  const double master = fold_node(masters), direction = fold_node(directions);
  double* const sums = pieces.sums + pieces.first_block + piece;
  if (thread == 0) sums[0] = master, sums[pieces.n_blocks] = direction;
}

class CudaDirectionNorm final : public DirectionNormKernel {
 public:
  Result<void> add(Stream& stream, const LambCoefficients& coefficients, const MeasuredPart& part,
                   double* sums) override {
    if (part.arrays.n == 0) return {};
    CASTOR_ASSIGN(const int device, device_of(part.arrays.exp_avg, "norm of updates on the GPU: exp_avg"));
    const CurrentDevice current(device);
    CASTOR_ASSIGN(const Pieces pieces, pieces_of(device, part));
    cudaError_t status = with_types(part.arrays, [&](const auto& typed) {
      using Arrays = std::decay_t<decltype(typed)>;
      return launch(stream, n_direction_pieces(part), kNormFan, sum_pieces<Arrays>, coefficients.adam, typed, pieces);
    });
    if (status == cudaSuccess && part.ends()) status = fold_blocks(stream, pieces.sums, pieces.n_blocks, 2, sums);
    return cuda_result(status, "norm of updates on the GPU: measuring " + std::to_string(part.arrays.n) + " elements");
  }

 private:
  static constexpr std::uint64_t kCarryDoubles = 2 * kNormFan;

  Result<Pieces> pieces_of(int device, const MeasuredPart& part) {
    const DirectionPiece first = direction_piece(part, 0), last = direction_piece(part, n_direction_pieces(part) - 1);
    CASTOR_ASSIGN(double* const carries, carries_.room(device, 2 * kCarryDoubles));
    const std::uint64_t n_blocks = n_norm_blocks(part.numel);
    CASTOR_ASSIGN(double* const sums, sums_.room(device, tree_doubles(n_blocks, 2)));
    n_parts_ = part.begins() ? 0 : n_parts_ + 1;
    const std::uint64_t own = n_parts_ % 2;
    Pieces pieces;
    pieces.n_first = first.arrays.n;
    pieces.first_row = static_cast<unsigned>(first.first_row);
    pieces.open = !last.ends;
    pieces.carried = carries + (1 - own) * kCarryDoubles;
    pieces.carry = carries + own * kCarryDoubles;
    pieces.first_block = first.block;
    pieces.n_blocks = n_blocks;
    pieces.sums = sums;
    return pieces;
  }

  Scratch carries_{"rows of the norm of updates on the GPU", 2 * kCarryDoubles};
  Scratch sums_{"norm of updates on the GPU", 512};  // the pairs of sums of a tensor of 16 Mi elements
  std::uint64_t n_parts_ = 0;                        // of the tensor, before this one
};

}  // namespace

Result<std::unique_ptr<DirectionNormKernel>> make_cuda_direction_norm() {
  return std::unique_ptr<DirectionNormKernel>(std::make_unique<CudaDirectionNorm>());
}

}  // namespace castor::kernels

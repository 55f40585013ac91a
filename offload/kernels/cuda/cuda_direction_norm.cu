// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "../cuda_kernels.h"
#include "../lamb_element.h"
#include "../norm_order.h"
#include "cuda_launch.h"
#include "cuda_scratch.h"

namespace castor::kernels {
namespace {

/// How the elements of a part fall into blocks of the norm. Pairs are of masters and directions.
struct Pieces {
  std::uint64_t n_first;  ///< elements in the first of them
  bool continues, open;   ///< the first one's lanes are handed on to this part; the last one's by it
  const double* carried;  ///< kNormLanes of masters, then of directions
  double* carry;          ///< likewise; other memory, since blocks of threads run at the same time
  double* sums;           ///< a pair a piece
};

__device__ void fold(double* lanes) {
  for (unsigned half = kNormLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) lanes[threadIdx.x] += lanes[threadIdx.x + half];
  }
}

/// A thread is a lane, a block of threads a piece.
template <typename Arrays>
__global__ void __launch_bounds__(kNormLanes)
    sum_pieces(const AdamCoefficients c, const Arrays arrays, const Pieces pieces) {
  __shared__ double masters[kNormLanes], directions[kNormLanes];
  const unsigned piece = blockIdx.x, lane = threadIdx.x;
  const std::uint64_t start = piece == 0 ? 0 : pieces.n_first + (piece - 1) * kNormBlock;
  const std::uint64_t whole_end = pieces.n_first + piece * kNormBlock;
  const std::uint64_t end = whole_end < arrays.n ? whole_end : arrays.n;
  const bool continues = piece == 0 && pieces.continues;
  double master = continues ? pieces.carried[lane] : 0;
  double direction = continues ? pieces.carried[kNormLanes + lane] : 0;
  for (std::uint64_t i = start + lane; i < end; i += kNormLanes) {
    const AdamElement e = with_moments(c, arrays.load_grad(i), arrays.load(i));
    master += square(e.master);
    direction += square(lamb_direction(c, e, sqrtf(e.exp_avg_sq)));
  }
  if (piece + 1 == gridDim.x && pieces.open) {
    pieces.carry[lane] = master;
    pieces.carry[kNormLanes + lane] = direction;
    return;
  }
  masters[lane] = master, directions[lane] = direction;
  fold(masters);
  fold(directions);
  if (lane == 0) pieces.sums[2 * piece] = masters[0], pieces.sums[2 * piece + 1] = directions[0];
}

/// Adds the sums of whole blocks to the tensor's, by one thread.
__global__ void add_in_order(const double* sums, std::uint64_t n_blocks, bool begins, bool ends, double* totals) {
  double master = begins ? 0 : totals[0], direction = begins ? 0 : totals[1];
  for (std::uint64_t block = 0; block < n_blocks; ++block) master += sums[2 * block], direction += sums[2 * block + 1];
  totals[0] = ends ? canonical_sum(master) : master;
  totals[1] = ends ? canonical_sum(direction) : direction;
}

class CudaDirectionNorm final : public DirectionNormKernel {
 public:
  Result<void> add(Stream& stream, const LambCoefficients& coefficients, const MeasuredPart& part,
                   double* sums) override {
    if (part.arrays.n == 0) return {};
    CASTOR_ASSIGN(const int device, device_of(part.arrays.exp_avg, "norm of updates on the GPU: exp_avg"));
    const CurrentDevice current(device);
    CASTOR_ASSIGN(const Pieces pieces, pieces_of(device, part));
    const std::uint64_t n_pieces = n_direction_pieces(part);
    cudaError_t status = with_types(part.arrays, [&](const auto& typed) {
      using Arrays = std::decay_t<decltype(typed)>;
      return launch(stream, n_pieces, kNormLanes, sum_pieces<Arrays>, coefficients.adam, typed, pieces);
    });
    if (status == cudaSuccess)
      status = launch(stream, 1, 1, add_in_order, static_cast<const double*>(pieces.sums),
                      n_pieces - (pieces.open ? 1 : 0), part.begins(), part.ends(), sums);
    return cuda_result(status, "norm of updates on the GPU: measuring " + std::to_string(part.arrays.n) + " elements");
  }

 private:
  static constexpr std::uint64_t kCarryDoubles = 2 * kNormLanes;

  Result<Pieces> pieces_of(int device, const MeasuredPart& part) {
    const std::uint64_t n_pieces = n_direction_pieces(part);
    const DirectionPiece first = direction_piece(part, 0), last = direction_piece(part, n_pieces - 1);
    CASTOR_ASSIGN(double* const carries, carries_.room(device, 2 * kCarryDoubles));
    CASTOR_ASSIGN(double* const sums, sums_.room(device, 2 * n_pieces));
    n_parts_ = part.begins() ? 0 : n_parts_ + 1;
    const std::uint64_t own = n_parts_ % 2;
    return Pieces{first.arrays.n,
                  !first.begins,
                  !last.ends,
                  carries + (1 - own) * kCarryDoubles,
                  carries + own * kCarryDoubles,
                  sums};
  }

  Scratch carries_{"lanes of the norm of updates on the GPU", 2 * kCarryDoubles};
  Scratch sums_{"norm of updates on the GPU", 512};  // pairs of a part of 16 Mi elements
  std::uint64_t n_parts_ = 0;                        // of the tensor, before this one
};

}  // namespace

Result<std::unique_ptr<DirectionNormKernel>> make_cuda_direction_norm() {
  return std::unique_ptr<DirectionNormKernel>(std::make_unique<CudaDirectionNorm>());
}

}  // namespace castor::kernels

// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/direction_norm.h>

#include <algorithm>
#include <string>

#include "float_environment.h"
#include "lamb_loops.h"
#include "norm_order.h"

namespace castor {
namespace {

class HostDirectionNorm final : public DirectionNormKernel {
 public:
  Result<void> add(Stream&, const LambCoefficients& coefficients, const MeasuredPart& part, double* sums) override {
    if (part.begins()) sums[0] = sums[1] = 0;
    for (std::uint64_t i = 0; i < n_direction_pieces(part); ++i) {
      const DirectionPiece piece = direction_piece(part, i);
      if (piece.begins) lanes_ = {};
      add_direction(coefficients, piece.arrays, lanes_);
      if (piece.ends) add_block(fold(lanes_), sums);
    }
    if (part.ends()) std::transform(sums, sums + 2, sums, kernels::canonical_sum);
    return {};
  }

 private:
  static void add_block(const DirectionPair& block, double* sums) {
    const kernels::DefaultFloatEnvironment environment;
    for (std::size_t of = 0; of < block.size(); ++of) sums[of] += block[of];
  }

  DirectionLanes lanes_;  ///< of the block under way
};

double fold(std::array<double, kNormLanes>& lanes) {
  for (std::uint64_t half = kNormLanes / 2; half > 0; half /= 2)
    for (std::uint64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

}  // namespace

std::uint64_t n_direction_pieces(const MeasuredPart& part) {
  return n_norm_blocks(part.first + part.arrays.n) - part.first / kNormBlock;
}

DirectionPiece direction_piece(const MeasuredPart& part, std::uint64_t i) {
  const std::uint64_t block = part.first / kNormBlock + i, end = part.first + part.arrays.n;
  const std::uint64_t block_first = block * kNormBlock, block_end = std::min(part.numel, block_first + kNormBlock);
  const std::uint64_t first = std::max(part.first, block_first), last = std::min(end, block_end);
  if (first % kNormLanes != 0 || (last % kNormLanes != 0 && last != part.numel) || last <= first)
    throw ContractViolation("direction norm: elements " + std::to_string(first) + " to " + std::to_string(last) +
                            " are no rows of " + std::to_string(kNormLanes) + " of a tensor of " +
                            std::to_string(part.numel));
  return {part.arrays.part(first - part.first, last - first), block, first == block_first, last == block_end};
}

void add_direction(const LambCoefficients& coefficients, const AdamArrays& piece, DirectionLanes& lanes) {
  const kernels::DefaultFloatEnvironment environment;
  kernels::add_by_vectors(coefficients, piece, lanes);
}

DirectionPair fold(DirectionLanes lanes) {
  const kernels::DefaultFloatEnvironment environment;
  return {fold(lanes.masters), fold(lanes.directions)};
}

std::unique_ptr<DirectionNormKernel> make_host_direction_norm() { return std::make_unique<HostDirectionNorm>(); }

}  // namespace castor

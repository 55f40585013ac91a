// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/direction_norm.h>

#include <algorithm>
#include <string>
#include <vector>

#include "float_environment.h"
#include "lamb_loops.h"
#include "norm_tree.h"

namespace castor {
namespace {

class HostDirectionNorm final : public DirectionNormKernel {
 public:
  Result<void> add(Stream&, const LambCoefficients& coefficients, const MeasuredPart& part, double* sums) override {
    if (part.begins()) blocks_.clear();
    for (std::uint64_t i = 0; i < n_direction_pieces(part); ++i) {
      const DirectionPiece piece = direction_piece(part, i);
      sum_direction_rows(coefficients, piece, rows_);
      if (piece.ends) blocks_.push_back(fold(rows_, piece.end_row()));
    }
    if (part.ends()) {
      const DirectionPair tensor = add_direction_blocks(blocks_);
      std::copy(tensor.begin(), tensor.end(), sums);
    }
    return {};
  }

 private:
  DirectionRows rows_;                 ///< of the block to which parts are being added
  std::vector<DirectionPair> blocks_;  ///< the complete blocks of the tensor
};

}  // namespace

std::uint64_t n_direction_pieces(const MeasuredPart& part) {
  return n_norm_blocks(part.first + part.arrays.n) - part.first / kNormBlock;
}

DirectionPiece direction_piece(const MeasuredPart& part, std::uint64_t i) {
  const std::uint64_t block = part.first / kNormBlock + i, end = part.first + part.arrays.n;
  const std::uint64_t block_first = block * kNormBlock, block_end = std::min(part.numel, block_first + kNormBlock);
  const std::uint64_t first = std::max(part.first, block_first), last = std::min(end, block_end);
  if (first % kNormRow != 0 || (last % kNormRow != 0 && last != part.numel) || last <= first)
    throw ContractViolation("direction norm: elements " + std::to_string(first) + " to " + std::to_string(last) +
                            " are no rows of " + std::to_string(kNormRow) + " of a tensor of " +
                            std::to_string(part.numel));
  return {part.arrays.part(first - part.first, last - first), block, (first - block_first) / kNormRow,
          first == block_first, last == block_end};
}

void sum_direction_rows(const LambCoefficients& coefficients, const DirectionPiece& piece, DirectionRows& rows) {
  const kernels::DefaultFloatEnvironment environment;
  kernels::sum_rows_by_vectors(coefficients, piece.arrays, rows.masters.data() + piece.first_row,
                               rows.directions.data() + piece.first_row);
}

DirectionPair fold(DirectionRows rows, std::uint64_t n_rows) {
  const kernels::DefaultFloatEnvironment environment;
  return {kernels::fold_node(rows.masters.data(), n_rows), kernels::fold_node(rows.directions.data(), n_rows)};
}

DirectionPair add_direction_blocks(std::span<const DirectionPair> blocks) {
  DirectionPair sums;
  for (std::size_t of = 0; of < sums.size(); ++of) {
    std::vector<double> values;
    for (const DirectionPair& block : blocks) values.push_back(block[of]);
    sums[of] = add_norm_blocks(values);
  }
  return sums;
}

std::unique_ptr<DirectionNormKernel> make_host_direction_norm() { return std::make_unique<HostDirectionNorm>(); }

}  // namespace castor

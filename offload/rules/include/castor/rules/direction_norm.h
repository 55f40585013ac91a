// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include <castor/memory/device.h>
#include <castor/memory/result.h>
#include <castor/rules/grad_norm.h>
#include <castor/rules/lamb.h>

namespace castor {

/// Part of a tensor, in the state in which its update will read it.
struct MeasuredPart {
  UpdateArrays arrays;        ///< only read
  std::uint64_t first = 0;  ///< the number of its first element in the tensor: a multiple of kNormRow
  std::uint64_t numel = 0;  ///< of the tensor
  bool begins() const { return first == 0; }
  bool ends() const { return first + arrays.n == numel; }
};

/// The sums of squares of LAMB's ratio: of a tensor's fp32 masters p, and of the direction r in which its update will
/// move them (lamb.h), each in the order of GradNormKernel. A split master counts as a whole: the sums have the same
/// bits whether masters are split or not, and with every dtype of the weights.
///
/// Parts may end between any two rows: the sums of a block's rows are carried over to the next part.
class DirectionNormKernel {
 public:
  virtual ~DirectionNormKernel() = default;
  /// Queues on `stream` the addition of `part` to the tensor's sums, of masters to `sums[0]` and of the direction to
  /// `sums[1]`; a host kernel runs at once. The sums are written with the tensor's last part. Both are in memory that
  /// the kernel reaches.
  ///
  /// Requires: the parts of a tensor arrive in order, from its first to its last, without parts of another tensor in
  /// between; each but the last is a multiple of kNormRow long (ContractViolation).
  /// Threads: one at a time, with all calls on one stream. Errors: those of GradNormKernel.
  virtual Result<void> add(Stream& stream, const LambCoefficients& coefficients, const MeasuredPart& part,
                           double* sums) = 0;
};

/// The plain loop on the host, on the calling thread.
std::unique_ptr<DirectionNormKernel> make_host_direction_norm();
/// The kernel for `device`: the host's loop on the CPU, a CUDA kernel on a GPU.
Result<std::unique_ptr<DirectionNormKernel>> make_direction_norm(const Device& device);

/// One value of the masters, and one of the direction.
using DirectionPair = std::array<double, 2>;

/// The sums of a block's rows.
struct DirectionRows {
  std::array<double, kNormFan> masters = {}, directions = {};
};

/// The elements that a part and a block have in common: many threads can share the host's sums piece by piece.
struct DirectionPiece {
  UpdateArrays arrays;
  std::uint64_t block = 0;      ///< its number in the tensor
  std::uint64_t first_row = 0;  ///< the number of its first row in the block
  bool begins = false;          ///< it has the block's first element
  bool ends = false;            ///< it has the block's last element
  std::uint64_t end_row() const { return first_row + n_norm_rows(arrays.n); }
};

/// Piece number `i` of `part`, which has one for each block that it has elements of.
DirectionPiece direction_piece(const MeasuredPart& part, std::uint64_t i);
std::uint64_t n_direction_pieces(const MeasuredPart& part);

/// Writes the sums of the rows of `piece` to their places in `rows`. Threads: any number at a time, with different
/// pieces.
void sum_direction_rows(const LambCoefficients& coefficients, const DirectionPiece& piece, DirectionRows& rows);
/// The sums of a block, from those of its `n_rows` rows.
DirectionPair fold(DirectionRows rows, std::uint64_t n_rows);
/// The sums of a tensor, from those of all its blocks.
DirectionPair add_direction_blocks(std::span<const DirectionPair> blocks);

}  // namespace castor

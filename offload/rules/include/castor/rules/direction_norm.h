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

/// Part of a tensor, as its update is about to find it.
struct MeasuredPart {
  AdamArrays arrays;        ///< read alone
  std::uint64_t first = 0;  ///< the number of its first element in the tensor: a multiple of kNormRow
  std::uint64_t numel = 0;  ///< of the tensor
  bool begins() const { return first == 0; }
  bool ends() const { return first + arrays.n == numel; }
};

/// The sums of squares of LAMB's ratio: of a tensor's fp32 masters p, and of the direction r in which its update will move
/// them (lamb.h), each in the order of GradNormKernel. A master that is split counts whole: the sums have the same bits
/// however states and weights are kept.
///
/// Parts may end between any two rows: the sums of a block's rows are carried over to the next part.
class DirectionNormKernel {
 public:
  virtual ~DirectionNormKernel() = default;
  /// Queues what `part` adds to `sums[0]`, of the masters, and `sums[1]`, of the direction, on `stream`; a host kernel runs
  /// at once. They are the tensor's when its last part has been added. Both are in memory that the kernel reaches.
  ///
  /// Requires: parts from the tensor's first to its last, one behind the other, with those of no other in between; each but
  /// the last a multiple of kNormRow long (ContractViolation).
  /// Threads: one at a time, with all calls on one stream. Errors: those of GradNormKernel.
  virtual Result<void> add(Stream& stream, const LambCoefficients& coefficients, const MeasuredPart& part,
                           double* sums) = 0;
};

/// On the calling thread.
std::unique_ptr<DirectionNormKernel> make_host_direction_norm();
/// The kernel for `device`: the host's loop on the CPU, a CUDA kernel on a GPU.
Result<std::unique_ptr<DirectionNormKernel>> make_direction_norm(const Device& device);

/// A value of the masters, and one of the direction.
using DirectionPair = std::array<double, 2>;

/// The sums of a block's rows.
struct DirectionRows {
  std::array<double, kNormFan> masters = {}, directions = {};
};

/// The host's sums in pieces, so that many threads can share them. What a part has in common with a block.
struct DirectionPiece {
  AdamArrays arrays;
  std::uint64_t block = 0;      ///< its number in the tensor
  std::uint64_t first_row = 0;  ///< the number of its first row in the block
  bool begins = false;          ///< the block's first elements are among them
  bool ends = false;            ///< and its last
  std::uint64_t end_row() const { return first_row + n_norm_rows(arrays.n); }
};

/// Of block number `i` of those that `part` has elements of; and how many there are.
DirectionPiece direction_piece(const MeasuredPart& part, std::uint64_t i);
std::uint64_t n_direction_pieces(const MeasuredPart& part);

/// Writes the sums of the rows of `piece` to its places in `rows`; those of different pieces at the same time.
void sum_direction_rows(const LambCoefficients& coefficients, const DirectionPiece& piece, DirectionRows& rows);
/// The sums of a block, of its `n_rows` rows.
DirectionPair fold(DirectionRows rows, std::uint64_t n_rows);
/// The sums of a tensor, of all its blocks.
DirectionPair add_direction_blocks(std::span<const DirectionPair> blocks);

}  // namespace castor

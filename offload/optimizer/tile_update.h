// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <castor/rules/update_rule.h>

namespace castor {

/// The update of one tile: its tensors one after another, each with its coefficients, updated as a whole or in parts by
/// many threads.
class TileUpdate {
 public:
  /// Adds the arrays of a tensor's part of the tile, which begins `in_tile` elements after the tile's first. Requires:
  /// parts are added in the order of their places.
  void add(const UpdateCoefficients& coefficients, const UpdateArrays& arrays, std::uint64_t in_tile);

  /// The number of parts, of kUpdatePartElements of the tile each.
  std::uint32_t n_parts() const;
  /// Bytes of memory that it reads and writes.
  std::uint64_t touched_bytes() const;
  Result<void> run_part(const UpdateKernels& kernels, Stream& stream, std::uint32_t part) const;
  Result<void> run(const UpdateKernels& kernels, Stream& stream) const;

 private:
  struct Piece {
    UpdateCoefficients coefficients;
    UpdateArrays arrays;
    std::uint64_t first = 0;  ///< in the tile
    std::uint64_t end() const { return first + arrays.n; }
  };

  std::vector<Piece> pieces_;
};

}  // namespace castor

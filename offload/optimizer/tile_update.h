// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <castor/rules/update_rule.h>

namespace castor {

/// The update of one tile: its tensors side by side, each with its coefficients, updated whole or in parts by many threads.
class TileUpdate {
 public:
  /// The arrays of a tensor's part of the tile, which begins `in_tile` elements behind the tile's first. Those that are added
  /// later lie behind.
  void add(const UpdateCoefficients& coefficients, const AdamArrays& arrays, std::uint64_t in_tile);

  /// Of kAdamPartElements of the tile each.
  std::uint32_t n_parts() const;
  Result<void> run_part(const UpdateKernels& kernels, Stream& stream, std::uint32_t part) const;
  Result<void> run(const UpdateKernels& kernels, Stream& stream) const;

 private:
  struct Piece {
    UpdateCoefficients coefficients;
    AdamArrays arrays;
    std::uint64_t first = 0;  ///< in the tile
    std::uint64_t end() const { return first + arrays.n; }
  };

  std::vector<Piece> pieces_;
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tile_states.h"

namespace castor {

/// The states and weights of a tile as they were before its update, kept so that it can be taken back. By parts of
/// kAdamPartElements, as they are updated.
class TileUndo {
 public:
  struct Place {
    std::byte* states = nullptr;
    std::byte* weights = nullptr;  ///< of the tile's first element
    std::byte* kept = nullptr;     ///< bytes() of them
  };

  TileUndo(const Place& place, std::uint64_t numel, DType weights, const StateFormat& format);

  /// What is kept of a tile.
  static std::uint64_t bytes(std::uint64_t numel, DType weights, const StateFormat& format);

  std::uint32_t n_parts() const;
  void keep(std::uint32_t part) const;
  void put_back(std::uint32_t part) const;

 private:
  struct Range {
    std::uint64_t first = 0, n = 0;
  };
  Range range(std::uint32_t part) const;

  TileStates states_, kept_;
  std::byte *weights_, *kept_weights_;
  std::uint64_t numel_, weight_bytes_;
};

}  // namespace castor

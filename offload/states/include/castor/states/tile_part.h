// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <castor/chunk/chunk_layout.h>

namespace castor {

/// The elements that a tensor and a tile of its chunk (ChunkShape::tile) have in common.
struct TilePart {
  TensorId tensor{};
  std::uint64_t numel = 0;
  std::uint64_t in_tensor = 0, in_tile = 0, in_chunk = 0;  ///< where the part begins, in elements
};

/// The parts of one tile, in the order of their places.
std::vector<TilePart> parts_of_tile(const ChunkLayout& layout, PayloadId chunk, TileId tile);

/// The pieces of `parts` in elements `first` to `first` + n − 1, counted as `at` counts them: in their tensors, the
/// tile or the chunk.
std::vector<TilePart> within(const std::vector<TilePart>& parts, std::uint64_t TilePart::*at, std::uint64_t first,
                             std::uint64_t n);

/// True where the part is less than the tensor: the rest is in other tiles.
bool is_cut(const ChunkLayout& layout, const TilePart& part);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/states/tile_part.h>

#include <algorithm>

namespace castor {

std::vector<TilePart> parts_of_tile(const ChunkLayout& layout, PayloadId chunk, TileId tile) {
  const auto [first, numel] = layout.chunks[chunk].tile(tile);
  std::vector<TilePart> parts;
  for (const TensorId tensor : layout.chunks[chunk].tensors) {
    const TensorPlace& place = layout.tensors[tensor];
    const std::uint64_t begin = std::max(place.offset, first),
                        end = std::min(place.offset + place.numel, first + numel);
    if (begin < end) parts.push_back({tensor, end - begin, begin - place.offset, begin - first, begin});
  }
  return parts;
}

std::vector<TilePart> within(const std::vector<TilePart>& parts, std::uint64_t TilePart::*at, std::uint64_t first,
                             std::uint64_t n) {
  std::vector<TilePart> found;
  for (const TilePart& part : parts) {
    const std::uint64_t begin = std::max(part.*at, first), end = std::min(part.*at + part.numel, first + n);
    if (begin >= end) continue;
    const std::uint64_t skipped = begin - part.*at;
    found.push_back(
        {part.tensor, end - begin, part.in_tensor + skipped, part.in_tile + skipped, part.in_chunk + skipped});
  }
  return found;
}

bool is_cut(const ChunkLayout& layout, const TilePart& part) { return part.numel != layout.tensors[part.tensor].numel; }

}  // namespace castor

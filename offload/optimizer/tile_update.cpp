// SPDX-License-Identifier: Apache-2.0
#include "tile_update.h"

#include <algorithm>

namespace castor {

void TileUpdate::add(const UpdateCoefficients& coefficients, const UpdateArrays& arrays, std::uint64_t in_tile) {
  pieces_.push_back({coefficients, arrays, in_tile});
}

std::uint32_t TileUpdate::n_parts() const {
  return pieces_.empty()
             ? 0
             : static_cast<std::uint32_t>((pieces_.back().end() + kUpdatePartElements - 1) / kUpdatePartElements);
}

std::uint64_t TileUpdate::touched_bytes() const {
  std::uint64_t n_bytes = 0;
  for (const Piece& piece : pieces_) n_bytes += castor::touched_bytes(piece.arrays);
  return n_bytes;
}

Result<void> TileUpdate::run_part(const UpdateKernels& kernels, Stream& stream, std::uint32_t part) const {
  const std::uint64_t begin = part * kUpdatePartElements, end = begin + kUpdatePartElements;
  const auto ends_before = [](const Piece& piece, std::uint64_t at) { return piece.end() <= at; };
  for (auto piece = std::lower_bound(pieces_.begin(), pieces_.end(), begin, ends_before);
       piece != pieces_.end() && piece->first < end; ++piece) {
    const std::uint64_t first = std::max(begin, piece->first), last = std::min(end, piece->end());
    CASTOR_TRY(kernels.update(stream, piece->coefficients, piece->arrays.part(first - piece->first, last - first)));
  }
  return {};
}

Result<void> TileUpdate::run(const UpdateKernels& kernels, Stream& stream) const {
  for (const Piece& piece : pieces_) CASTOR_TRY(kernels.update(stream, piece.coefficients, piece.arrays));
  return {};
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "tile_undo.h"

#include <algorithm>
#include <cstring>

namespace castor {

TileUndo::TileUndo(const Place& place, std::uint64_t numel, DType weights, const StateFormat& format)
    : states_(place.states, numel, weights, format),
      kept_(place.kept, numel, weights, format),
      weights_(place.weights),
      kept_weights_(place.kept + numel * format.bytes_per_element(weights)),
      numel_(numel),
      weight_bytes_(size_bytes(weights)) {}

std::uint64_t TileUndo::bytes(std::uint64_t numel, DType weights, const StateFormat& format) {
  return numel * (format.bytes_per_element(weights) + size_bytes(weights));
}

std::uint32_t TileUndo::n_parts() const {
  return static_cast<std::uint32_t>((numel_ + kAdamPartElements - 1) / kAdamPartElements);
}

TileUndo::Range TileUndo::range(std::uint32_t part) const {
  const std::uint64_t first = std::min(part * kAdamPartElements, numel_);
  return {first, std::min(kAdamPartElements, numel_ - first)};
}

void TileUndo::keep(std::uint32_t part) const {
  const auto [first, n] = range(part);
  kept_.take_over(states_, first, n);
  std::memcpy(kept_weights_ + first * weight_bytes_, weights_ + first * weight_bytes_, n * weight_bytes_);
}

void TileUndo::put_back(std::uint32_t part) const {
  const auto [first, n] = range(part);
  states_.take_over(kept_, first, n);
  std::memcpy(weights_ + first * weight_bytes_, kept_weights_ + first * weight_bytes_, n * weight_bytes_);
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/states/slot_pages.h>

#include <algorithm>

#include <castor/memory/bytes.h>

namespace castor {
namespace {

/// Bytes of padding per byte of `slots`.
double padding_of(const std::vector<std::uint64_t>& slots, std::uint64_t page_bytes) {
  double n_bytes = 0, padded = 0;
  for (const std::uint64_t slot : slots) {
    n_bytes += static_cast<double>(slot);
    padded += static_cast<double>(paged_bytes(slot, page_bytes));
  }
  return n_bytes > 0 ? padded / n_bytes - 1 : 0;
}

/// Of a page, and of its padding beyond that of the smallest page, per byte.
constexpr std::uint64_t kMostPageBytes = 32 * kMiB;
constexpr double kMostPadding = 0.02;

double padding_of(const SlotSizes& slots, std::uint64_t page_bytes) {
  return std::max(padding_of(slots.weights, page_bytes), padding_of(slots.states, page_bytes));
}

}  // namespace

SlotSizes slot_sizes(const ChunkLayout& layout, const StateFormat& format) {
  SlotSizes slots;
  for (const ChunkShape& shape : layout.chunks) {
    slots.weights.push_back(shape.numel * size_bytes(shape.dtype));
    if (!shape.trainable) continue;
    for (const TileId tile : shape.tiles())
      slots.states.push_back(shape.tile(tile).numel * format.bytes_per_element(shape.dtype));
  }
  return slots;
}

std::uint64_t paged_bytes(std::uint64_t n_bytes, std::uint64_t page_bytes) {
  return lies_in_pages(n_bytes, page_bytes) ? align_up(n_bytes, page_bytes) : n_bytes;
}

std::uint64_t best_page_bytes(const SlotSizes& slots, std::uint64_t grain_bytes) {
  const auto fits = [&](std::uint64_t page_bytes) {
    const auto lies_there = [&](std::uint64_t slot) {
      return !lies_in_pages(slot, grain_bytes) || lies_in_pages(slot, page_bytes);
    };
    return std::all_of(slots.weights.begin(), slots.weights.end(), lies_there) &&
           std::all_of(slots.states.begin(), slots.states.end(), lies_there) &&
           padding_of(slots, page_bytes) <= padding_of(slots, grain_bytes) + kMostPadding;
  };
  std::uint64_t page_bytes = std::max(kMostPageBytes / grain_bytes, std::uint64_t{1}) * grain_bytes;
  while (page_bytes > grain_bytes && !fits(page_bytes)) page_bytes -= grain_bytes;
  return page_bytes;
}

std::uint64_t padding_bytes(const SlotSizes& slots, std::uint64_t page_bytes, std::uint64_t room_bytes) {
  return static_cast<std::uint64_t>(static_cast<double>(room_bytes) * padding_of(slots, page_bytes));
}

}  // namespace castor

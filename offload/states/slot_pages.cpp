// SPDX-License-Identifier: Apache-2.0
#include <castor/states/slot_pages.h>

#include <algorithm>
#include <numeric>

namespace castor {
namespace {

/// The share of padding in a room that is full of `slots`.
double padded_part(const std::vector<std::uint64_t>& slots, const SlotPages& pages) {
  double n_bytes = 0, padded = 0;
  for (const std::uint64_t slot : slots) {
    n_bytes += static_cast<double>(slot);
    padded += static_cast<double>(paged_bytes(slot, pages));
  }
  return padded > 0 ? 1 - n_bytes / padded : 0;
}

double padded_part(const SlotSizes& slots, const SlotPages& pages) {
  return std::max(padded_part(slots.weights, pages), padded_part(slots.states, pages));
}

/// True where slots that are padded to pages hold most of the weights.
bool hold_most(const SlotPages& pages, const std::vector<std::uint64_t>& weights) {
  const std::uint64_t least_bytes = *std::min_element(pages.begin(), pages.end()) / 2;
  std::uint64_t n_bytes = 0, in_pages = 0;
  for (const std::uint64_t slot : weights) {
    n_bytes += slot;
    in_pages += slot > least_bytes ? slot : 0;
  }
  return in_pages > n_bytes / 2;
}

std::vector<SlotPages> candidates() {
  std::vector<SlotPages> single, pairs;
  for (std::uint64_t large = kMaxPageBytes; large >= kMinPageBytes; large -= kPageGrainBytes) {
    single.push_back({large});
    for (std::uint64_t small = large - kPageGrainBytes; small >= kMinPageBytes; small -= kPageGrainBytes)
      pairs.push_back({large, small});
  }
  single.insert(single.end(), pairs.begin(), pairs.end());
  return single;
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

std::uint64_t paged_bytes(std::uint64_t n_bytes, const SlotPages& pages) {
  std::uint64_t least = 0;
  for (const std::uint64_t page : pages) {
    if (n_bytes <= page / 2) continue;
    const std::uint64_t padded = align_up(n_bytes, page);
    least = least == 0 ? padded : std::min(least, padded);
  }
  return least == 0 ? n_bytes : least;
}

/// Of equal candidates the first is chosen: one size rather than two, and large pages, of which fewer are mapped for a
/// slot.
SlotPages best_pages(const SlotSizes& slots) {
  SlotPages best;
  double least = 1.0 / kMostPagePadding;
  for (const SlotPages& pages : candidates()) {
    if (!hold_most(pages, slots.weights)) continue;
    if (const double part = padded_part(slots, pages); part < least) best = pages, least = part;
  }
  return best;
}

std::uint64_t padding_bytes(const SlotSizes& slots, const SlotPages& pages, std::uint64_t room_bytes) {
  return static_cast<std::uint64_t>(static_cast<double>(room_bytes) * padded_part(slots, pages));
}

}  // namespace castor

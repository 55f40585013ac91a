// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/slot_pages.h>

#include <numeric>

namespace castor {
namespace {

std::uint64_t sum(const std::vector<std::uint64_t>& slots) {
  return std::accumulate(slots.begin(), slots.end(), std::uint64_t{0});
}

std::uint64_t padding_of(const std::vector<std::uint64_t>& slots, std::uint64_t page_bytes) {
  std::uint64_t n_bytes = 0;
  for (const std::uint64_t slot : slots) n_bytes += paged_bytes(slot, page_bytes) - slot;
  return n_bytes;
}

}  // namespace

std::vector<std::uint64_t> slot_sizes(const ChunkLayout& layout, const StateFormat& format) {
  std::vector<std::uint64_t> slots;
  for (const ChunkShape& shape : layout.chunks) {
    slots.push_back(shape.numel * size_bytes(shape.dtype));
    if (!shape.trainable) continue;
    for (std::uint32_t tile = 0; tile < shape.n_tiles(); ++tile)
      slots.push_back(shape.tile(tile).numel * format.bytes_per_element(shape.dtype));
  }
  return slots;
}

std::uint64_t best_page_bytes(const std::vector<std::uint64_t>& slots) {
  std::uint64_t best = kMaxPageBytes, least = padding_of(slots, best);
  for (std::uint64_t page = best - kPageGrainBytes; page >= kMinPageBytes; page -= kPageGrainBytes)
    if (const std::uint64_t padding = padding_of(slots, page); padding < least) best = page, least = padding;
  return page_bytes_for(slots, best);
}

/// Where next to no slot is as large as a page there is nothing to gain either.
std::uint64_t page_bytes_for(const std::vector<std::uint64_t>& slots, std::uint64_t page_bytes) {
  if (page_bytes == 0 || padding_of(slots, page_bytes) > sum(slots) / kMostPagePadding) return 0;
  std::uint64_t in_pages = 0;
  for (const std::uint64_t slot : slots) in_pages += slot > page_bytes / 2 ? slot : 0;
  return in_pages > sum(slots) / 2 ? page_bytes : 0;
}

std::uint64_t padding_bytes(const std::vector<std::uint64_t>& slots, std::uint64_t page_bytes,
                            std::uint64_t room_bytes) {
  const auto padding = static_cast<double>(padding_of(slots, page_bytes));
  if (padding == 0) return 0;
  return static_cast<std::uint64_t>(static_cast<double>(room_bytes) * padding /
                                    (static_cast<double>(sum(slots)) + padding));
}

}  // namespace castor

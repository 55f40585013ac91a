// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/rules/state_format.h>

namespace castor {

/// Bytes of the weights and states of a layout's chunks on a device. Gradients take one or two times the bytes of
/// weights.
struct SlotSizes {
  std::vector<std::uint64_t> weights, states;  ///< states by tile
};

SlotSizes slot_sizes(const ChunkLayout& layout, const StateFormat& format);

/// True where a slot of `n_bytes` lies in pages of `page_bytes`. One of at most half a page lies elsewhere, as all do
/// where page_bytes is 0. Pure.
constexpr bool lies_in_pages(std::uint64_t n_bytes, std::uint64_t page_bytes) {
  return page_bytes > 0 && n_bytes > page_bytes / 2;
}

/// The bytes that a slot of `n_bytes` takes where it lies: in pages it is padded. Pure.
std::uint64_t paged_bytes(std::uint64_t n_bytes, std::uint64_t page_bytes);

/// The size of pages that suits the slots best: the largest that pads them little more than pages of `grain_bytes` do, of
/// which it is a multiple, and in which lie all slots that lie in those. Fewer pages are mapped sooner. Pure.
std::uint64_t best_page_bytes(const SlotSizes& slots, std::uint64_t grain_bytes);

/// The bytes of padding beside `room_bytes` of weights, or of states, whichever have more. Pure.
std::uint64_t padding_bytes(const SlotSizes& slots, std::uint64_t page_bytes, std::uint64_t room_bytes);

}  // namespace castor

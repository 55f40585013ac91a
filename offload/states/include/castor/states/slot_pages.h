// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/memory/bytes.h>
#include <castor/rules/state_format.h>

namespace castor {

/// An allocator that maps device memory in pages leaves holes between slots of several sizes: the rest of a page beside
/// a slot cannot be used by a slot that needs a whole page. Slots that are whole pages leave no holes.
///
/// Pages are multiples of a GPU's smallest mapping, and more than 10 MiB: torch maps no smaller ones for large tensors.
inline constexpr std::uint64_t kPageGrainBytes = 2 * kMiB;
inline constexpr std::uint64_t kMinPageBytes = 12 * kMiB, kMaxPageBytes = 32 * kMiB;

/// Padding is not used where it takes more than one part in this many of the slots: then holes cost less.
inline constexpr std::uint64_t kMostPagePadding = 16;

/// Bytes of the weights and states of a layout's chunks on a device. Gradients take one or two times the bytes of
/// weights.
struct SlotSizes {
  std::vector<std::uint64_t> weights, states;  ///< states by tile
};

SlotSizes slot_sizes(const ChunkLayout& layout, const StateFormat& format);

/// The page sizes that slots may be made of; none: slots are not padded.
using SlotPages = std::vector<std::uint64_t>;

/// The bytes of a slot of `n_bytes` in whole pages of the size that suits it best. Slots of at most half a page are not
/// padded and lie elsewhere. Pure.
std::uint64_t paged_bytes(std::uint64_t n_bytes, const SlotPages& pages);

/// The one or two page sizes at which padding takes the smallest part of a room that is full of weights, or of states;
/// none where that part is too large, or few weights are as large as pages. Pure.
SlotPages best_pages(const SlotSizes& slots);

/// The bytes of padding in `room_bytes` that are full of weights, or of states, whichever lose more. Pure.
std::uint64_t padding_bytes(const SlotSizes& slots, const SlotPages& pages, std::uint64_t room_bytes);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/memory/bytes.h>
#include <castor/rules/state_format.h>

namespace castor {

/// An allocator that maps device memory in pages leaves holes between slots of several sizes: what is left of a page
/// beside a slot serves nobody who needs a whole one. Slots that are whole pages leave none.
///
/// Pages are multiples of what a GPU maps at least, and more than 10 MiB: torch takes no smaller ones for large tensors.
inline constexpr std::uint64_t kPageGrainBytes = 2 * kMiB;
inline constexpr std::uint64_t kMinPageBytes = 12 * kMiB, kMaxPageBytes = 32 * kMiB;

/// Where padding slots to whole pages takes more than one part in this many of them, holes cost less.
inline constexpr std::uint64_t kMostPagePadding = 16;

/// Sizes of what chunks of a layout take on a device. Gradients take one or two times what weights do.
struct SlotSizes {
  std::vector<std::uint64_t> weights, states;  ///< states by part
};

SlotSizes slot_sizes(const ChunkLayout& layout, const StateFormat& format);

/// The page sizes that slots may be made of; none: slots are not padded.
using SlotPages = std::vector<std::uint64_t>;

/// What a slot of `n_bytes` takes in whole pages of the size that suits it best. Slots of at most half a page are not padded
/// and lie elsewhere. Pure.
std::uint64_t paged_bytes(std::uint64_t n_bytes, const SlotPages& pages);

/// One or two page sizes at which padding takes the smallest part of a room that is full of weights, or of states; none
/// where that is too much, or few slots are as large as pages. Pure.
SlotPages best_pages(const SlotSizes& slots);

/// Of `room_bytes`, what padding takes where it is full of weights, or of states, whichever lose more. Pure.
std::uint64_t padding_bytes(const SlotSizes& slots, const SlotPages& pages, std::uint64_t room_bytes);

}  // namespace castor

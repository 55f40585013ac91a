// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/memory/bytes.h>
#include <castor/offload/state_format.h>

namespace castor {

/// An allocator that maps device memory in pages leaves holes between slots of several sizes: what is left of a page
/// beside a slot serves nobody who needs a whole one. Slots that are whole pages leave none.
///
/// Pages are multiples of what the GPU maps at least, more than 10 MiB (torch takes no smaller ones for large tensors).
inline constexpr std::uint64_t kPageGrainBytes = 2 * kMiB;
inline constexpr std::uint64_t kMinPageBytes = 12 * kMiB, kMaxPageBytes = 32 * kMiB;

/// Of the bytes of all slots, the most that padding them to whole pages may add: one part in this many. Where it would be
/// more, holes cost less.
inline constexpr std::uint64_t kMostPagePadding = 16;

/// What a slot of `n_bytes` takes in pages of `page_bytes`: those under half a page are not padded, and lie elsewhere.
/// `page_bytes` 0: `n_bytes`.
constexpr std::uint64_t paged_bytes(std::uint64_t n_bytes, std::uint64_t page_bytes) {
  return page_bytes == 0 || n_bytes <= page_bytes / 2 ? n_bytes : align_up(n_bytes, page_bytes);
}

/// The slots that chunks of `layout` take on a device: their weights, and each part of their states as `format` says.
/// Gradients take one or two times what weights do.
std::vector<std::uint64_t> slot_sizes(const ChunkLayout& layout, const StateFormat& format);

/// The page size at which padding takes least for one slot of each of `slots`, the larger of equals; 0 where none is good
/// enough. Pure.
std::uint64_t best_page_bytes(const std::vector<std::uint64_t>& slots);

/// `page_bytes`, or 0 where slots that are whole pages of it would take too much. Pure.
std::uint64_t page_bytes_for(const std::vector<std::uint64_t>& slots, std::uint64_t page_bytes);

/// Of `room_bytes`, what padding takes where it is full of slots in the proportions of `slots`. Pure.
std::uint64_t padding_bytes(const std::vector<std::uint64_t>& slots, std::uint64_t page_bytes,
                            std::uint64_t room_bytes);

}  // namespace castor

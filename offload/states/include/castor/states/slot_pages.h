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

/// The bytes of a slot of `n_bytes` in whole pages of `page_bytes`. A slot of at most half a page is not padded, and lies
/// elsewhere, as all do where page_bytes is 0. Pure.
std::uint64_t paged_bytes(std::uint64_t n_bytes, std::uint64_t page_bytes);

/// The bytes of padding beside `room_bytes` of weights, or of states, whichever have more. Pure.
std::uint64_t padding_bytes(const SlotSizes& slots, std::uint64_t page_bytes, std::uint64_t room_bytes);

}  // namespace castor

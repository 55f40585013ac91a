// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <castor/chunk/chunk.h>
#include <castor/chunk/chunk_layout.h>
#include <castor/rules/state_format.h>

namespace castor {

/// What a training has come to, as chunks: which elements of which tensor lie in which chunk, in which form, and how often
/// each tensor was updated. With the bytes of these chunks it is all that it takes to go on.
struct StateMap {
  ChunkLayout layout;
  StateFormat format;
  std::vector<std::uint32_t> registered;     ///< by tensor: its place in the order in which the model registers them
  std::vector<std::uint64_t> n_updates;      ///< by tensor: Adam's t
  std::vector<ChunkId> payload;              ///< by chunk of the layout: its weights
  std::vector<std::vector<ChunkId>> states;  ///< … and its optimizer states, by tile; a frozen one has none
  std::uint64_t first_key = 0;               ///< where chunk number 0 lies in a store; the others follow by number

  std::uint64_t key(ChunkId chunk) const { return first_key + chunk; }
  std::uint64_t payload_bytes(std::uint32_t i) const;
  std::uint64_t state_bytes(std::uint32_t i, std::uint32_t tile) const;
  /// Every chunk number in it.
  std::vector<ChunkId> chunks() const;
  /// True where the bytes of one are the bytes of the other, whatever they are.
  bool same_places(const StateMap& other) const;
};

/// `map` as words: a version, then format, tensors and chunks. docs/storage.md has the table.
std::vector<std::uint64_t> encode_state_map(const StateMap& map);

/// The reverse; `words` may be anything, nothing is believed before it was checked. Errors: io, with the first defect.
Result<StateMap> decode_state_map(std::span<const std::uint64_t> words);

}  // namespace castor

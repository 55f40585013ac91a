// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <castor/chunk/chunk.h>
#include <castor/chunk/chunk_layout.h>
#include <castor/rules/registered_id.h>
#include <castor/rules/state_format.h>

namespace castor {

/// The state of a training as chunks: which elements of which tensor lie in which chunk, in which format, and how often
/// each tensor was updated. With the bytes of these chunks a training can be continued.
struct StateMap {
  ChunkLayout layout;
  StateFormat format;
  IndexedVector<TensorId, RegisteredId> registered;
  IndexedVector<TensorId, std::uint64_t> n_updates;  ///< Adam's t
  IndexedVector<PayloadId, ChunkId> payload;         ///< its weights
  IndexedVector<PayloadId, IndexedVector<TileId, ChunkId>> states;  ///< its optimizer states; a frozen one has none
  std::uint64_t first_key = 0;  ///< the key of chunk number 0 in a store; the others follow by number

  std::uint64_t key(ChunkId chunk) const { return first_key + number(chunk); }
  std::uint64_t payload_bytes(PayloadId chunk) const;
  std::uint64_t state_bytes(PayloadId chunk, TileId tile) const;
  /// All chunk numbers of the map.
  std::vector<ChunkId> chunks() const;
  /// True where the chunks of one map can be read by the other: same layout, format and numbers, whatever the counters.
  bool same_places(const StateMap& other) const;
};

/// `map` as words: a version, then format, tensors and chunks. docs/storage.md has the table.
std::vector<std::uint64_t> encode_state_map(const StateMap& map);

/// The reverse; every word is checked before it is used. Errors: io, with the first defect.
Result<StateMap> decode_state_map(std::span<const std::uint64_t> words);

}  // namespace castor

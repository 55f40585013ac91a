// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/chunk/chunk_manager.h>
#include <castor/plan/placement.h>
#include <castor/rules/state_format.h>
#include <castor/rules/tile_states.h>
#include <castor/states/state_map.h>
#include <castor/states/tile_part.h>

namespace castor {

/// The chunks that hold a model's weights and optimizer states, the homes of these states, and how often each tensor
/// was updated.
///
/// For each payload chunk of a layout there is a chunk of weights and, if it is trained, one state chunk per tile
/// (ChunkShape::tile).
/// Threads: one at a time.
class StateLayout {
 public:
  /// Registers the chunks with `chunks`. All are borrowed. `registration_order`: the tensors as the model registers
  /// them, the order in which norms combine.
  StateLayout(const ChunkLayout& layout, ChunkManager& chunks, const StateFormat& format,
              const IndexedVector<RegisteredId, TensorId>& registration_order);

  const ChunkLayout& layout() const { return layout_; }
  const ChunkShape& shape(PayloadId chunk) const { return layout_.chunks[chunk]; }
  const StateFormat& format() const { return format_; }
  IdRange<PayloadId> chunks() const { return layout_.chunks.ids(); }
  std::uint32_t n_tensors() const { return static_cast<std::uint32_t>(layout_.tensors.size()); }

  ChunkId payload(PayloadId chunk) const { return payload_.at(chunk); }
  ChunkId state(PayloadId chunk, TileId tile = {}) const { return state_.at(chunk).at(tile); }
  /// The chunks that an update of `chunk` writes: its states, then its weights.
  std::vector<ChunkId> written_by_update(PayloadId chunk) const;
  /// The states of a tile whose bytes are at `data`.
  TileStates tile_states(PayloadId chunk, TileId tile, std::byte* data) const;
  std::vector<TilePart> parts_of(PayloadId chunk, TileId tile) const { return parts_of_tile(layout_, chunk, tile); }

  /// Where states live and are updated. home() and update_tier() require that adopt was called.
  const StatePlacement& placement() const { return placement_; }
  /// By chunk of weights or states: where it may stay between its uses under `placement`.
  std::vector<std::pair<ChunkId, Places>> rest_under(const StatePlacement& placement) const;
  void adopt(StatePlacement placement) { placement_ = std::move(placement); }
  Tier home(PayloadId chunk) const { return placement_.states[chunk]; }
  Tier update_tier(PayloadId chunk) const { return placement_.update_tier(chunk); }

  /// Updates of `tensor` so far: Adam's t.
  std::uint64_t& n_updates(TensorId tensor) { return n_updates_.at(tensor); }
  RegisteredId registered(TensorId tensor) const { return registered_.at(tensor); }
  const IndexedVector<RegisteredId, TensorId>& registration_order() const { return registration_order_; }

  /// The places of all elements in chunks, and the counters of updates so far; the key in a store is left 0.
  StateMap map() const { return {layout_, format_, registered_, n_updates_, payload_, state_, 0}; }

 private:
  const ChunkLayout& layout_;
  const StateFormat format_;
  const IndexedVector<RegisteredId, TensorId>& registration_order_;
  IndexedVector<TensorId, RegisteredId> registered_;
  IndexedVector<TensorId, std::uint64_t> n_updates_;
  IndexedVector<PayloadId, ChunkId> payload_;
  IndexedVector<PayloadId, IndexedVector<TileId, ChunkId>> state_;  ///< a frozen one has none
  StatePlacement placement_;
};

}  // namespace castor

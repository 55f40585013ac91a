// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/chunk/chunk_manager.h>
#include <castor/plan/planner.h>
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
  /// Registers the chunks with `chunks`. All are borrowed. `registration_order`: tensor numbers as the model registers
  /// them, the order in which norms combine.
  StateLayout(const ChunkLayout& layout, ChunkManager& chunks, const StateFormat& format,
              const std::vector<std::uint32_t>& registration_order);

  const ChunkLayout& layout() const { return layout_; }
  const ChunkShape& shape(std::uint32_t i) const { return layout_.chunks[i]; }
  const StateFormat& format() const { return format_; }
  std::uint32_t n_chunks() const { return static_cast<std::uint32_t>(layout_.chunks.size()); }
  std::uint32_t n_tensors() const { return static_cast<std::uint32_t>(layout_.tensors.size()); }

  ChunkId payload(std::uint32_t i) const { return payload_.at(i); }
  ChunkId state(std::uint32_t i, std::uint32_t tile = 0) const { return state_.at(i).at(tile); }
  /// The chunks that an update of payload chunk `i` writes: its states, then its weights.
  std::vector<ChunkId> written_by_update(std::uint32_t i) const;
  /// The states of a tile whose bytes are at `data`.
  TileStates tile_states(std::uint32_t i, std::uint32_t tile, std::byte* data) const;
  std::vector<TilePart> parts_of(std::uint32_t i, std::uint32_t tile) const { return parts_of_tile(layout_, i, tile); }

  /// Where states live and are updated. home() and update_tier() require that adopt was called.
  const Plan& placement() const { return placement_; }
  void adopt(Plan placement) { placement_ = std::move(placement); }
  Tier home(std::uint32_t i) const { return placement_.states[i]; }
  Tier update_tier(std::uint32_t i) const { return placement_.update_tier(i); }

  /// Updates of `tensor` so far: Adam's t.
  std::uint64_t& n_updates(std::uint32_t tensor) { return n_updates_.at(tensor); }
  /// The place of `tensor` in the order of registration.
  std::uint32_t registered(std::uint32_t tensor) const { return registered_.at(tensor); }
  const std::vector<std::uint32_t>& registration_order() const { return registration_order_; }

  /// The places of all elements in chunks, and the counters of updates so far; the key in a store is left 0.
  StateMap map() const { return {layout_, format_, registered_, n_updates_, payload_, state_, 0}; }

 private:
  const ChunkLayout& layout_;
  const StateFormat format_;
  const std::vector<std::uint32_t>& registration_order_;
  std::vector<std::uint32_t> registered_;    ///< by tensor
  std::vector<std::uint64_t> n_updates_;     ///< by tensor
  std::vector<ChunkId> payload_;             ///< by payload chunk
  std::vector<std::vector<ChunkId>> state_;  ///< by payload chunk and tile; a frozen one has none
  Plan placement_;
};

}  // namespace castor

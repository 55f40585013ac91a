// SPDX-License-Identifier: Apache-2.0
#include <castor/states/state_layout.h>

#include <string>

namespace castor {

StateLayout::StateLayout(const ChunkLayout& layout, ChunkManager& chunks, const StateFormat& format,
                         const IndexedVector<RegisteredId, TensorId>& registration_order)
    : layout_(layout),
      format_(format),
      registration_order_(registration_order),
      registered_(layout.tensors.size()),
      n_updates_(layout.tensors.size(), 0) {
  for (const PayloadId chunk : this->chunks()) {
    const ChunkShape& shape = layout.chunks[chunk];
    const std::string text = "chunk " + std::to_string(number(chunk));
    payload_.push_back(chunks.add(ChunkKind::payload, shape.numel * size_bytes(shape.dtype), "parameters of " + text));
    IndexedVector<TileId, ChunkId>& states = state_[state_.push_back({})];
    for (const TileId tile : shape.trained_tiles()) {
      std::string label = "optimizer states of " + text;
      if (shape.n_tiles() > 1)
        label += ", part " + std::to_string(index(tile) + 1) + " of " + std::to_string(shape.n_tiles());
      const std::uint64_t n_bytes = shape.tile(tile).numel * format.bytes_per_element(shape.dtype);
      states.push_back(chunks.add(ChunkKind::state, n_bytes, label));
    }
  }
  for (const RegisteredId place : registration_order.ids()) registered_[registration_order[place]] = place;
}

std::vector<ChunkId> StateLayout::written_by_update(PayloadId chunk) const {
  std::vector<ChunkId> written = state_.at(chunk).entries();
  written.push_back(payload_[chunk]);
  return written;
}

std::vector<std::pair<ChunkId, Places>> StateLayout::rest_under(const StatePlacement& placement) const {
  std::vector<std::pair<ChunkId, Places>> rest;
  for (const PayloadId chunk : chunks()) {
    const bool off_device = placement.payload_off_device[chunk];
    rest.emplace_back(payload(chunk), off_device ? kAnywhere & ~only(Tier::device) : kAnywhere);
    for (const TileId tile : shape(chunk).trained_tiles())
      rest.emplace_back(state(chunk, tile), rest_of_states(placement.states[chunk]));
  }
  return rest;
}

TileStates StateLayout::tile_states(PayloadId chunk, TileId tile, std::byte* data) const {
  return {data, shape(chunk).tile(tile).numel, shape(chunk).dtype, format_};
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/states/state_layout.h>

#include <string>

namespace castor {

StateLayout::StateLayout(const ChunkLayout& layout, ChunkManager& chunks, const StateFormat& format,
                         const std::vector<std::uint32_t>& registration_order)
    : layout_(layout),
      format_(format),
      registration_order_(registration_order),
      registered_(layout.tensors.size(), 0),
      n_updates_(layout.tensors.size(), 0) {
  for (std::uint32_t i = 0; i < n_chunks(); ++i) {
    const ChunkShape& shape = layout.chunks[i];
    const std::string number = "chunk " + std::to_string(i);
    payload_.push_back(
        chunks.add(ChunkKind::payload, shape.numel * size_bytes(shape.dtype), "parameters of " + number));
    auto& states = state_.emplace_back();
    for (std::uint32_t tile = 0; tile < shape.n_tiles() && shape.trainable; ++tile) {
      std::string label = "optimizer states of " + number;
      if (shape.n_tiles() > 1)
        label += ", part " + std::to_string(tile + 1) + " of " + std::to_string(shape.n_tiles());
      const std::uint64_t n_bytes = shape.tile(tile).numel * format.bytes_per_element(shape.dtype);
      states.push_back(chunks.add(ChunkKind::state, n_bytes, label));
    }
  }
  for (std::uint32_t id = 0; id < registration_order.size(); ++id) registered_[registration_order[id]] = id;
}

std::vector<ChunkId> StateLayout::written_by_update(std::uint32_t i) const {
  std::vector<ChunkId> written = state_.at(i);
  written.push_back(payload_[i]);
  return written;
}

TileStates StateLayout::tile_states(std::uint32_t i, std::uint32_t tile, std::byte* data) const {
  return {data, shape(i).tile(tile).numel, shape(i).dtype, format_};
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/states/model_chunks.h>

#include <algorithm>

namespace castor {

std::uint64_t chunk_bytes_under(std::span<const TensorSpec> tensors, std::uint64_t device_budget_bytes,
                                std::uint64_t host_budget_bytes) {
  const std::uint64_t most_bytes =
      std::clamp(std::min(device_budget_bytes / 16, host_budget_bytes / 64), kMinChunkBytes, kMaxChunkBytes);
  return best_chunk_bytes(tensors, {most_bytes});
}

LayoutOptions layout_options(std::span<const TensorSpec> tensors, const StateFormat& format, std::uint64_t chunk_bytes,
                             bool nvme) {
  LayoutOptions options{chunk_bytes};
  if (!nvme || chunk_bytes < kLeastPartBytes) return options;
  std::uint64_t numel = 0;
  std::uint32_t bytes_per_element = 0;
  for (const TensorSpec& tensor : tensors) {
    numel += tensor.numel;
    bytes_per_element = std::max(bytes_per_element, format.bytes_per_element(tensor.dtype));
  }
  for (std::uint32_t n_times = 1; n_times <= kMostChunksAPart; ++n_times) {
    if (bytes_per_element % n_times != 0) continue;  // parts are whole numbers of chunks
    options.state_bytes = bytes_per_element / n_times;
    if (numel * options.state_bytes / chunk_bytes <= kMostParts) return options;
  }
  return {chunk_bytes};
}

IndexedVector<PayloadId, ChunkDemand> demands_of(const ChunkLayout& layout, const StateFormat& format,
                                                 StepGradients gradients) {
  IndexedVector<PayloadId, ChunkDemand> demands(layout.chunks.size());
  for (const PayloadId chunk : layout.chunks.ids()) {
    const ChunkShape& shape = layout.chunks[chunk];
    ChunkDemand& demand = demands[chunk];
    demand.payload_bytes = shape.numel * size_bytes(shape.dtype);
    if (!shape.trainable) continue;
    const bool added_up = gradients == StepGradients::added_up;
    demand.gradient_bytes = added_up ? shape.numel * sizeof(float) : demand.payload_bytes;
    demand.arriving_bytes = added_up ? 2 * demand.payload_bytes : 0;
    demand.state_bytes = shape.numel * format.bytes_per_element(shape.dtype);
    demand.tile_bytes = shape.tile(TileId{}).numel * format.bytes_per_element(shape.dtype);
  }
  return demands;
}

}  // namespace castor

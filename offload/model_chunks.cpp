// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/model_chunks.h>

#include <algorithm>

namespace castor {

std::uint64_t chunk_bytes_under(std::span<const TensorSpec> tensors, std::uint64_t device_budget_bytes,
                                std::uint64_t host_budget_bytes) {
  const std::uint64_t most_bytes =
      std::clamp(std::min(device_budget_bytes / 16, host_budget_bytes / 64), kMinChunkBytes, kMaxChunkBytes);
  return best_chunk_bytes(tensors, {most_bytes});
}

LayoutOptions layout_options(std::span<const TensorSpec> tensors, std::uint64_t chunk_bytes, bool nvme) {
  LayoutOptions options{chunk_bytes};
  if (!nvme || chunk_bytes < kLeastPartBytes) return options;
  std::uint64_t numel = 0;
  for (const TensorSpec& tensor : tensors) numel += tensor.numel;
  for (const std::uint32_t n_times : {1U, 2U, 3U}) {
    options.state_bytes = kStateBytesPerElement / n_times;
    if (numel * options.state_bytes / chunk_bytes <= kMostParts) return options;
  }
  return {chunk_bytes};
}

std::vector<ChunkDemand> demands_of(const ChunkLayout& layout) {
  std::vector<ChunkDemand> demands;
  for (const ChunkShape& shape : layout.chunks) {
    ChunkDemand& demand = demands.emplace_back();
    demand.payload_bytes = shape.numel * size_bytes(shape.dtype);
    demand.tile_bytes = shape.tile(0).numel * (shape.trainable ? kStateBytesPerElement : 4);
    if (!shape.trainable) continue;
    demand.gradient_bytes = demand.payload_bytes;
    demand.state_bytes = shape.numel * kStateBytesPerElement;
  }
  return demands;
}

}  // namespace castor

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

std::vector<ChunkDemand> demands_of(const ChunkLayout& layout) {
  std::vector<ChunkDemand> demands;
  for (const ChunkShape& shape : layout.chunks) {
    const std::uint64_t weight_bytes = shape.numel * size_bytes(shape.dtype);
    demands.push_back(
        {weight_bytes, shape.trainable ? weight_bytes : 0, shape.trainable ? shape.numel * kStateBytesPerElement : 0});
  }
  return demands;
}

}  // namespace castor

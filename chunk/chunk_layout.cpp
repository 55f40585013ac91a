// SPDX-License-Identifier: Apache-2.0
#include <castor/chunk/chunk_layout.h>

#include <map>
#include <utility>

#include <castor/memory/bytes.h>

namespace castor {
namespace {

/// Elements between possible starts: the tensor alignment in the narrowest dtype, so that wider copies are aligned too.
constexpr std::uint64_t kAlignElements = kTensorAlignBytes / 2;

bool fits(const ChunkShape& chunk, std::uint64_t numel, const LayoutOptions& options) {
  return (chunk.numel + numel) * size_bytes(chunk.dtype) <= options.chunk_bytes;
}

}  // namespace

ChunkLayout plan_layout(std::span<const TensorSpec> tensors, const LayoutOptions& options) {
  ChunkLayout layout;
  std::map<std::pair<DType, bool>, std::size_t> open;  // the chunk that is being filled, per kind of tensor
  for (std::uint32_t id = 0; id < tensors.size(); ++id) {
    const TensorSpec& tensor = tensors[id];
    if (tensor.numel == 0) throw ContractViolation("plan_layout: tensor " + std::to_string(id) + " has no elements");
    const std::uint64_t padded = align_up(tensor.numel, kAlignElements);
    const auto key = std::pair(tensor.dtype, tensor.trainable);
    const auto found = open.find(key);
    if (found == open.end() || !fits(layout.chunks[found->second], padded, options)) {
      open[key] = layout.chunks.size();
      layout.chunks.push_back({tensor.dtype, tensor.trainable, 0, {}});
    }
    const std::size_t at = open[key];
    ChunkShape& chunk = layout.chunks[at];
    layout.tensors.push_back({static_cast<std::uint32_t>(at), chunk.numel, tensor.numel});
    chunk.tensors.push_back(id);
    chunk.numel += padded;
  }
  return layout;
}

}  // namespace castor

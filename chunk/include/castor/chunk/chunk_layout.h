// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <castor/chunk/ids.h>
#include <castor/memory/dtype.h>
#include <castor/memory/result.h>

namespace castor {

/// The properties of a parameter that its place depends on.
struct TensorSpec {
  static constexpr UnitId kOwnUnit{std::numeric_limits<std::uint32_t>::max()};

  std::uint64_t numel = 0;
  DType dtype = DType::f32;
  bool trainable = true;
  UnitId unit = kOwnUnit;  ///< the first unit that uses it; neighbours of one unit are used together
};

/// The place of a tensor: it starts at element `offset` of `chunk`.
struct TensorPlace {
  PayloadId chunk{};
  std::uint64_t offset = 0;  ///< elements
  std::uint64_t numel = 0;

  bool operator==(const TensorPlace&) const = default;
};

/// Elements of a chunk, or of a tensor.
struct ElementRange {
  std::uint64_t first = 0, numel = 0;
};

/// One payload chunk: consecutive tensors of one dtype, all trainable or all frozen.
struct ChunkShape {
  DType dtype = DType::f32;
  bool trainable = true;
  std::uint64_t numel = 0;        ///< with the padding between tensors
  std::vector<TensorId> tensors;  ///< in the order of their offsets
  /// Elements whose optimizer states are kept and updated together: all, or equal parts (the last may be shorter). A
  /// tile starts at a multiple of the tensor alignment.
  std::uint64_t tile_numel = 0;

  std::uint32_t n_tiles() const { return static_cast<std::uint32_t>((numel + tile_numel - 1) / tile_numel); }
  /// All tiles; a frozen chunk has them too, for its first values.
  IdRange<TileId> tiles() const { return ids<TileId>(n_tiles()); }
  /// The tiles that have optimizer states: none of a frozen chunk.
  IdRange<TileId> trained_tiles() const { return ids<TileId>(trainable ? n_tiles() : 0); }
  ElementRange tile(TileId tile) const {
    const std::uint64_t first = index(tile) * tile_numel;
    return {first, std::min(tile_numel, numel - first)};
  }
  bool operator==(const ChunkShape&) const = default;
};

/// The place of every tensor. The same offsets, in elements, hold for the chunk's gradients and for each of its
/// optimizer states.
struct ChunkLayout {
  IndexedVector<TensorId, TensorPlace> tensors;
  IndexedVector<PayloadId, ChunkShape> chunks;

  bool operator==(const ChunkLayout&) const = default;
};

struct LayoutOptions {
  /// Chunks are closed before they pass this size; a tensor larger than it gets a chunk of its own.
  std::uint64_t chunk_bytes = 32 << 20;
  /// A chunk is padded so that it can be cut into this many shards of whole alignment units.
  std::uint32_t n_ranks = 1;
  /// 0: the states of a chunk are kept together, those of a tensor larger than a chunk in parts no larger than other
  /// chunks' states. Otherwise the bytes of states of an element: the states are kept in parts as large as chunks, so
  /// that nearly all allocations have one size.
  std::uint32_t state_bytes = 0;
};

/// Lays `tensors` out in the order given (the order of first use), so that tensors that are used together share a
/// chunk: a unit's neighbouring tensors do wherever one chunk can hold them.
///
/// A chunk is as large as its tensors, or as another chunk that is at most 0.1 % larger, so that memory of either suits
/// both. Each tensor starts at a multiple of kTensorAlignBytes in every dtype that a chunk of these elements is kept in
/// (16-bit weights, 16-bit gradients, fp32 states). The other waste is padding: under 256 elements after each tensor,
/// and at the end of a chunk under 256 elements for each rank and part of the states.
/// Requires: every numel > 0, n_ranks > 0 (ContractViolation). Pure.
ChunkLayout plan_layout(std::span<const TensorSpec> tensors, const LayoutOptions& options);

/// The chunk_bytes between a quarter of `most.chunk_bytes` and all of it at which the chunks of `tensors` have the
/// fewest different sizes, so that memory that one chunk leaves suits the next. Models repeat their blocks, so a whole
/// number of blocks, or of equal parts of one, gives almost all chunks one size. Among equals the fewest chunks win.
/// Pure.
///
/// Cost: under 50 ms for the 723 tensors of a model of 70 B parameters.
std::uint64_t best_chunk_bytes(std::span<const TensorSpec> tensors, const LayoutOptions& most);

}  // namespace castor

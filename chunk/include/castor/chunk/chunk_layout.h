// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <castor/memory/dtype.h>
#include <castor/memory/result.h>

namespace castor {

/// A parameter as the layout sees it. Its number is its place in the list.
struct TensorSpec {
  static constexpr std::uint32_t kOwnUnit = std::numeric_limits<std::uint32_t>::max();

  std::uint64_t numel = 0;
  DType dtype = DType::f32;
  bool trainable = true;
  std::uint32_t unit = kOwnUnit;  ///< who uses it first: neighbours of one unit are used together
};

/// Where a tensor lies: element `offset` of payload chunk `chunk`.
struct TensorPlace {
  std::uint32_t chunk = 0;
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
  std::uint64_t numel = 0;             ///< with the padding between tensors
  std::vector<std::uint32_t> tensors;  ///< in the order in which they lie
  /// Elements whose optimizer states are kept and updated together: all, or equal parts (the last may be shorter). Starts
  /// at multiples of the tensor alignment.
  std::uint64_t tile_numel = 0;

  std::uint32_t n_tiles() const { return static_cast<std::uint32_t>((numel + tile_numel - 1) / tile_numel); }
  ElementRange tile(std::uint32_t i) const { return {i * tile_numel, std::min(tile_numel, numel - i * tile_numel)}; }
  bool operator==(const ChunkShape&) const = default;
};

/// Which tensor lies where. The same offsets, in elements, hold for the chunk's gradients and for each of its optimizer
/// states.
struct ChunkLayout {
  std::vector<TensorPlace> tensors;  ///< by tensor number
  std::vector<ChunkShape> chunks;

  bool operator==(const ChunkLayout&) const = default;
};

struct LayoutOptions {
  /// Chunks are closed before they pass this size; a tensor larger than it gets a chunk of its own.
  std::uint64_t chunk_bytes = 32 << 20;
  /// A chunk is padded so that it falls into this many shards of whole alignment units.
  std::uint32_t n_ranks = 1;
  /// 0: the states of a chunk are kept together, those of a tensor larger than a chunk in parts no larger than other
  /// chunks' states. Else as many bytes of states belong to an element, and are kept in parts as large as chunks: then
  /// one size of memory suits nearly all that comes and goes.
  std::uint32_t state_bytes = 0;
};

/// Lays `tensors` out in the order given (the order of first use), so that what is used together lies together: a unit's
/// neighbouring tensors share a chunk where one can hold them.
///
/// A chunk is as large as its tensors, or, where that is at most 0.1 % more, as another chunk: memory of the one then
/// suits the other. Each tensor starts at a multiple of kTensorAlignBytes for every dtype that a chunk of these elements
/// is kept in (16-bit weights, 16-bit gradients, fp32 states): the rest of the waste is the padding between tensors, under
/// 256 elements each, and at the end under 256 elements a rank and part of the states. Requires: every numel > 0,
/// n_ranks > 0 (ContractViolation). Pure.
ChunkLayout plan_layout(std::span<const TensorSpec> tensors, const LayoutOptions& options);

/// The chunk_bytes between a quarter of `most.chunk_bytes` and it at which the chunks of `tensors` have the fewest
/// different sizes: memory that one chunk leaves then suits the next. Models repeat their blocks, so a whole number of
/// blocks, or of equal parts of one, gives almost all chunks one size. Among equals the fewest chunks win. Pure.
///
/// Cost: under 50 ms for the 723 tensors of a model of 70 B parameters.
std::uint64_t best_chunk_bytes(std::span<const TensorSpec> tensors, const LayoutOptions& most);

}  // namespace castor

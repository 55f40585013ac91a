// SPDX-License-Identifier: Apache-2.0
#include <castor/chunk/chunk_layout.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include <castor/memory/bytes.h>

namespace castor {
namespace {

/// Tensors start at multiples of this many elements: the tensor alignment in the narrowest dtype in which they are kept,
/// so that copies in wider dtypes are aligned too. Bytes have no other copies.
constexpr std::uint64_t align_elements(DType dtype) { return kTensorAlignBytes / (dtype == DType::u8 ? 1 : 2); }

/// A chunk may grow by 1/kEvenPart of its size to become as large as another.
constexpr std::uint64_t kEvenPart = 1000;

/// Of the sizes that chunks may have, as many are tried as these tensors can be cut in about a second, and no fewer than
/// the second number. Models of up to a thousand layers have all of them tried.
constexpr std::size_t kMostCuts = 100'000'000, kFewestTried = 32;

/// Tensors share chunks with tensors of their kind: of one dtype, all trainable or all frozen.
constexpr std::size_t kNKinds = 8;
std::size_t kind(const TensorSpec& tensor) {
  return 2 * static_cast<std::size_t>(tensor.dtype) + (tensor.trainable ? 1 : 0);
}

std::uint64_t padded(const TensorSpec& tensor) { return align_up(tensor.numel, align_elements(tensor.dtype)); }

void check(std::span<const TensorSpec> tensors, const LayoutOptions& options) {
  for (std::size_t id = 0; id < tensors.size(); ++id)
    if (tensors[id].numel == 0)
      throw ContractViolation("plan_layout: tensor " + std::to_string(id) + " has no elements");
  if (options.n_ranks == 0) throw ContractViolation("plan_layout: 0 ranks");
}

/// A group are tensors of one kind that the same unit uses, with none of their kind between them. By tensor: the
/// elements of its group for the first tensor of a group, 0 for the others.
std::vector<std::uint64_t> group_sizes(std::span<const TensorSpec> tensors) {
  std::vector<std::uint64_t> sizes(tensors.size(), 0);
  std::array<std::size_t, kNKinds> begin{};  // of the group that is open, per kind
  std::array<bool, kNKinds> any{};
  for (std::size_t id = 0; id < tensors.size(); ++id) {
    const std::size_t k = kind(tensors[id]);
    const bool goes_on =
        any[k] && tensors[id].unit != TensorSpec::kOwnUnit && tensors[begin[k]].unit == tensors[id].unit;
    if (!goes_on) begin[k] = id;
    any[k] = true;
    sizes[begin[k]] += padded(tensors[id]);
  }
  return sizes;
}

/// Cuts the tensors into chunks. Calls `place(tensor, chunk, offset, opens)` for each tensor in turn; `opens` is true
/// for the first tensor of a chunk.
template <typename Place>
void cut(std::span<const TensorSpec> tensors, std::span<const std::uint64_t> groups, std::uint64_t chunk_bytes,
         const Place& place) {
  struct Open {
    PayloadId chunk{};
    std::uint64_t numel = 0;
    bool any = false;
  };
  std::array<Open, kNKinds> open{};
  std::size_t n_chunks = 0;
  for (std::size_t id = 0; id < tensors.size(); ++id) {
    Open& chunk = open[kind(tensors[id])];
    const std::uint64_t width = size_bytes(tensors[id].dtype);
    const auto fits = [&](std::uint64_t numel) { return (chunk.numel + numel) * width <= chunk_bytes; };
    const bool group_fits_one = groups[id] * width <= chunk_bytes;
    const bool opens = !chunk.any || !fits(padded(tensors[id])) || (group_fits_one && !fits(groups[id]));
    if (opens) chunk = {id_at<PayloadId>(n_chunks++), 0, true};
    place(id_at<TensorId>(id), chunk.chunk, chunk.numel, opens);
    chunk.numel += padded(tensors[id]);
  }
}

/// Sizes at which a chunk holds a whole number of groups: sums of neighbours, from `least_bytes` to `most_bytes`.
std::set<std::uint64_t> candidates(std::span<const TensorSpec> tensors, std::span<const std::uint64_t> groups,
                                   std::uint64_t least_bytes, std::uint64_t most_bytes) {
  std::set<std::uint64_t> sums;
  std::set<std::pair<std::uint64_t, std::uint64_t>> begun;  // a model's blocks begin alike: sums from one are enough
  for (std::size_t first = 0; first < tensors.size(); ++first) {
    const std::uint64_t next = first + 1 < tensors.size() ? padded(tensors[first + 1]) : 0;
    if (groups[first] == 0 || !begun.emplace(padded(tensors[first]), next).second) continue;
    std::uint64_t n_bytes = 0;
    for (std::size_t id = first; id < tensors.size() && n_bytes <= most_bytes; ++id) {
      if (n_bytes >= least_bytes && groups[id] > 0) sums.insert(n_bytes);
      n_bytes += padded(tensors[id]) * size_bytes(tensors[id].dtype);
    }
    if (n_bytes >= least_bytes && n_bytes <= most_bytes) sums.insert(n_bytes);
  }
  return sums;
}

/// The number of different sizes of chunks, and the number of chunks.
std::pair<std::size_t, std::size_t> counts_at(std::span<const TensorSpec> tensors,
                                              std::span<const std::uint64_t> groups, std::uint64_t chunk_bytes) {
  IndexedVector<PayloadId, std::pair<std::size_t, std::uint64_t>> sizes;  // kind and elements
  cut(tensors, groups, chunk_bytes, [&](TensorId id, PayloadId at, std::uint64_t offset, bool opens) {
    const TensorSpec& tensor = tensors[index(id)];
    if (opens) sizes.push_back({});
    sizes[at] = {kind(tensor), offset + padded(tensor)};
  });
  const std::size_t n_chunks = sizes.size();
  std::sort(sizes.begin(), sizes.end());
  return {std::unique(sizes.begin(), sizes.end()) - sizes.begin(), n_chunks};
}

/// The number of parts in which the states of a chunk of full size are kept.
std::uint64_t parts_of(const ChunkShape& chunk, const LayoutOptions& options) {
  return std::max<std::uint64_t>(1, options.state_bytes / size_bytes(chunk.dtype));
}

/// Elements of a tile. A chunk above options.chunk_bytes (of one large tensor) has parts of the size of other chunks'
/// parts; where other chunks have one part, it has the fewest equal parts that are no larger than those.
std::uint64_t tile_numel(const ChunkShape& chunk, const LayoutOptions& options) {
  const std::uint64_t n_parts = parts_of(chunk, options);
  const std::uint64_t most_numel = options.chunk_bytes / size_bytes(chunk.dtype);
  if (most_numel == 0 || chunk.numel <= align_up(most_numel, align_elements(chunk.dtype) * n_parts))
    return chunk.numel / n_parts;
  if (n_parts > 1) return align_up(most_numel / n_parts, align_elements(chunk.dtype));
  const std::uint64_t n_tiles = (chunk.numel + most_numel - 1) / most_numel;
  return align_up((chunk.numel + n_tiles - 1) / n_tiles, align_elements(chunk.dtype));
}

/// A chunk that is hardly smaller than another of its dtype becomes as large.
void even_out(IndexedVector<PayloadId, ChunkShape>& chunks) {
  std::set<std::pair<DType, std::uint64_t>> sizes;
  for (const ChunkShape& chunk : chunks) sizes.emplace(chunk.dtype, chunk.numel);
  for (ChunkShape& chunk : chunks)
    chunk.numel = std::prev(sizes.upper_bound({chunk.dtype, chunk.numel + chunk.numel / kEvenPart}))->second;
}

}  // namespace

ChunkLayout plan_layout(std::span<const TensorSpec> tensors, const LayoutOptions& options) {
  check(tensors, options);
  ChunkLayout layout;
  cut(tensors, group_sizes(tensors), options.chunk_bytes,
      [&](TensorId id, PayloadId at, std::uint64_t offset, bool opens) {
        const TensorSpec& tensor = tensors[index(id)];
        if (opens) layout.chunks.push_back({tensor.dtype, tensor.trainable, 0, {}, 0});
        layout.tensors.push_back({at, offset, tensor.numel});
        layout.chunks[at].tensors.push_back(id);
        layout.chunks[at].numel = offset + padded(tensor);
      });
  for (ChunkShape& chunk : layout.chunks)
    chunk.numel = align_up(chunk.numel, align_elements(chunk.dtype) * options.n_ranks * parts_of(chunk, options));
  even_out(layout.chunks);
  for (ChunkShape& chunk : layout.chunks) chunk.tile_numel = tile_numel(chunk, options);
  return layout;
}

std::uint64_t best_chunk_bytes(std::span<const TensorSpec> tensors, const LayoutOptions& most) {
  check(tensors, most);
  const auto groups = group_sizes(tensors);
  auto sizes = candidates(tensors, groups, most.chunk_bytes / 4, most.chunk_bytes);
  sizes.insert(most.chunk_bytes);
  const std::size_t n_tried = std::max<std::size_t>(kFewestTried, kMostCuts / std::max<std::size_t>(1, tensors.size()));
  const std::size_t stride = (sizes.size() + n_tried - 1) / n_tried;
  std::size_t number = sizes.size() - 1;  // so that the largest is tried
  std::uint64_t best_bytes = 0;
  std::optional<std::pair<std::size_t, std::size_t>> fewest;
  for (const std::uint64_t n_bytes : sizes) {
    if (number-- % stride != 0) continue;
    const auto counts = counts_at(tensors, groups, n_bytes);
    if (!fewest || counts < *fewest) fewest = counts, best_bytes = n_bytes;
  }
  return best_bytes;
}

}  // namespace castor

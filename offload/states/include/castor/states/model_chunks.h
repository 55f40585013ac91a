// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/memory/bytes.h>
#include <castor/plan/planner.h>
#include <castor/rules/state_format.h>

namespace castor {

/// How a model's chunks follow from its parameters and the budgets: decided alike by who trains and by who estimates.

/// A device holds several chunks at once; updating one takes eight times its 16-bit weights on the host, and several
/// are on their way there.
inline constexpr std::uint64_t kMinChunkBytes = 512 * kKiB;
inline constexpr std::uint64_t kMaxChunkBytes = 32 * kMiB;

/// The chunk_bytes for `tensors` under these budgets: best_chunk_bytes up to a sixteenth of the device's and a 64th of
/// the host's, between kMinChunkBytes and kMaxChunkBytes. Pure.
std::uint64_t chunk_bytes_under(std::span<const TensorSpec> tensors, std::uint64_t device_budget_bytes,
                                std::uint64_t host_budget_bytes);

/// Above NVMe, states are kept in parts as large as chunks: an update begins sooner, less room is taken by what is on its
/// way, and where the host is full one size takes the other's place. From this size on a drive is as fast as with larger
/// ones; more parts than these would take plans longer than they gain, so parts are then two or three times as large.
inline constexpr std::uint64_t kLeastPartBytes = 4 * kMiB;
inline constexpr std::uint64_t kMostParts = 4096;
inline constexpr std::uint32_t kMostChunksAPart = 3;

/// How `tensors` are laid out in chunks of `chunk_bytes`, with states as `format` says. Pure.
LayoutOptions layout_options(std::span<const TensorSpec> tensors, const StateFormat& format, std::uint64_t chunk_bytes,
                             bool nvme);

/// What each chunk of `layout` and what belongs to it take: a gradient of the weights' dtype, and states as
/// `format` says; frozen chunks have neither. Pure.
std::vector<ChunkDemand> demands_of(const ChunkLayout& layout, const StateFormat& format);

/// The part of a GPU's budget that is left to the allocator for its rounding and fragments: a fifth of `non_model_bytes` of
/// activations and workspaces, a third of activations that are chunks (of sizes unlike other chunks'), but at most a sixth
/// of the budget; and however few those are, one or two of the segments of 20 MiB in which torch takes memory for each
/// block of a model, which activations use in part: a sixteenth of the budget up to 640 MiB, of small budgets more.
constexpr std::uint64_t allocator_slack_bytes(std::uint64_t device_budget_bytes, std::uint64_t non_model_bytes,
                                              std::uint64_t activation_bytes) {
  const std::uint64_t segments_bytes =
      std::max(std::min(200 * kMiB, device_budget_bytes / 4), std::min(640 * kMiB, device_budget_bytes / 16));
  return std::max(segments_bytes, std::min(device_budget_bytes / 6, non_model_bytes / 5 + activation_bytes / 3));
}

/// What the device must hold of chunks at once: the largest unit's parameters, and where activations are chunks, one that
/// is forgotten and one that is recalled between two units.
constexpr std::uint64_t working_bytes(std::uint64_t largest_unit_bytes, std::uint64_t activation_bytes) {
  return activation_bytes == 0 ? largest_unit_bytes : 2 * (largest_unit_bytes + activation_bytes);
}

}  // namespace castor

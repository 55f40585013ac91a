// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/memory/bytes.h>
#include <castor/plan/placement.h>
#include <castor/rules/state_format.h>

namespace castor {

/// Functions that derive a model's chunks from its parameters and the budgets, the same ones for training and for
/// estimates.

/// Limits of a chunk: a device holds several at once; updating one takes eight times its 16-bit weights on the host,
/// and several are on their way there.
inline constexpr std::uint64_t kMinChunkBytes = 512 * kKiB;
inline constexpr std::uint64_t kMaxChunkBytes = 32 * kMiB;

/// The chunk_bytes for `tensors` under these budgets: best_chunk_bytes up to a sixteenth of the device's and a 64th of
/// the host's, between kMinChunkBytes and kMaxChunkBytes. Pure.
std::uint64_t chunk_bytes_under(std::span<const TensorSpec> tensors, std::uint64_t device_budget_bytes,
                                std::uint64_t host_budget_bytes);

/// Above NVMe, states are kept in parts as large as chunks: an update begins sooner, states in flight take less room,
/// and on a full host one part takes the place of another. From kLeastPartBytes on a drive is as fast as with larger
/// parts; with more than kMostParts a plan takes longer than it gains, so parts are then two or three times as large.
inline constexpr std::uint64_t kLeastPartBytes = 4 * kMiB;
inline constexpr std::uint64_t kMostParts = 4096;
inline constexpr std::uint32_t kMostChunksAPart = 3;

/// The layout of `tensors` in chunks of `chunk_bytes`, with states as `format` says. Pure.
LayoutOptions layout_options(std::span<const TensorSpec> tensors, const StateFormat& format, std::uint64_t chunk_bytes,
                             bool nvme);

/// The gradients of a step.
enum class StepGradients : std::uint8_t {
  one_each,  ///< kept in the dtype of the weights
  added_up,  ///< of several micro-batches: added to sums in fp32 (GradientStore)
};

/// The bytes of each chunk of `layout`, of its gradients, and of its states as `format` says; frozen chunks have
/// neither. Pure.
///
/// Gradients that are added up take the room of two in the dtype of the weights beside the sums: one is added while the
/// next arrives. A chunk of which some tensors get no gradient in a micro-batch takes up to one more, which is not
/// counted.
IndexedVector<PayloadId, ChunkDemand> demands_of(const ChunkLayout& layout, const StateFormat& format,
                                                 StepGradients gradients = StepGradients::one_each);

/// What torch's allocator takes of a GPU at once for a large block. It checks its limit before it rounds up to this.
inline constexpr std::uint64_t kAllocatorSegmentBytes = 20 * kMiB;

/// The part of a GPU's budget that is left to the allocator for its rounding and fragments: a fifth of
/// `non_model_bytes` of activations and workspaces and a third of activations that are chunks (whose sizes differ from
/// other chunks'), together at most a sixth of the budget. It is at least one or two of the 20-MiB segments that torch
/// takes for each block of a model and that activations use in part: a sixteenth of the budget up to 640 MiB, or 200
/// MiB, of small budgets a quarter, where that is more.
constexpr std::uint64_t allocator_slack_bytes(std::uint64_t device_budget_bytes, std::uint64_t non_model_bytes,
                                              std::uint64_t activation_bytes) {
  const std::uint64_t segments_bytes =
      std::max(std::min(200 * kMiB, device_budget_bytes / 4), std::min(640 * kMiB, device_budget_bytes / 16));
  return std::max(segments_bytes, std::min(device_budget_bytes / 6, non_model_bytes / 5 + activation_bytes / 3));
}

/// The part of a GPU's budget that is left to the allocator where it serves the model's tensors alone, and chunks lie in
/// pages of their own: a sixteenth of `non_model_bytes`, and at least the smaller of 200 MiB and an eighth of the budget.
constexpr std::uint64_t tensors_slack_bytes(std::uint64_t device_budget_bytes, std::uint64_t non_model_bytes) {
  return std::max(std::min(200 * kMiB, device_budget_bytes / 8), non_model_bytes / 16);
}

/// The bytes of chunks that the device must hold at once: the largest unit's parameters, and where activations are
/// chunks, one that is being forgotten and one that is recalled between two units.
constexpr std::uint64_t working_bytes(std::uint64_t largest_unit_bytes, std::uint64_t activation_bytes) {
  return activation_bytes == 0 ? largest_unit_bytes : 2 * (largest_unit_bytes + activation_bytes);
}

}  // namespace castor

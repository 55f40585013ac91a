// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/chunk/chunk_manager.h>
#include <castor/memory/device.h>
#include <castor/optimizer/gradient_store.h>
#include <castor/optimizer/step_options.h>
#include <castor/states/state_layout.h>

#include "undo_chunks.h"

namespace castor {

/// One step's options, and the factor by which it multiplies every gradient.
struct StepTerms {
  const StepOptions& options;
  double grad_scale = 1;
};

/// The arrays and coefficients of updates, at the places where the chunks are now.
struct TileInputs {
  StateLayout& states;
  GradientStore& gradients;
  ChunkManager& chunks;
  UndoChunks& undo;
  Device& device;

  /// The arrays of a tensor's part of a tile, in the tier of its update. Weights are null where no copy is there.
  UpdateArrays arrays(PayloadId chunk, TileId tile, const TilePart& part) const;
  /// The coefficients of the tensor's `t`-th update, whose kernel finds the trust ratio at `trust`.
  UpdateCoefficients coefficients(TensorId tensor, std::uint64_t t, const StepTerms& terms,
                                  const float* trust) const;
  /// A whole tensor on the tier of its update: its gradient and its weights. Requires: none of its tiles has been
  /// updated yet.
  TrustedTensor whole(TensorId tensor) const;
  /// True where a GPU's kernels update the chunk.
  bool updates_on_gpu(PayloadId chunk) const {
    return states.update_tier(chunk) == Tier::device && device.kernels() != KernelPlace::host;
  }
  /// True where an update reads the old weights, so that it must fetch them.
  bool reads_weights(PayloadId chunk, const StepOptions& options) const;
  /// The memory of a chunk in `tier`.
  std::byte* data(ChunkId id, Tier tier) const { return chunks.chunk(id).at(tier).buffer.data(); }
};

}  // namespace castor

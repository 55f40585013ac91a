// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/optimizer/rehearsal.h>
#include <castor/plan/placement.h>
#include <castor/rules/state_format.h>

#include "forecast/shapes/model_shapes.h"

namespace castor::estimate {

/// The payload chunks that hold each unit's parameters, in ascending order; of a unit that shares the weights
/// of another, those of that unit. Requires: `layout` is that of tensors_of(model).
IndexedVector<UnitId, std::vector<PayloadId>> chunks_by_unit(const shapes::Model& model, const ChunkLayout& layout);

/// The unit with the largest payload chunks. Requires: as chunks_by_unit.
LargestUnit largest_unit(const shapes::Model& model, const ChunkLayout& layout);

/// How a model's blocks run backward.
struct Recomputation {
  bool on = false;                ///< each block's forward units run again before its backward units
  std::uint64_t input_bytes = 0;  ///< of each block's input, kept in a chunk until then; 0 = not in a chunk
};

/// The calls of a step: forward units in order, backward units in reverse, each with the gradients of its parameters.
StepScript script_of(const shapes::Model& model, const Recomputation& recomputation);

/// The work after all gradients are complete.
struct EndOfStep {
  bool clip = false;  ///< updates that are not speculative wait for the norm, and so for the end of backward
  /// Updates on the host run beside the training thread, as soon as a chunk's gradients are complete unless they wait.
  bool overlap_updates = false;
  bool measures_weights = false;    ///< LARS: before a chunk's first update, for trust ratios
  bool measures_direction = false;  ///< LAMB: tensors in several tiles in separate moments before the first update
};

/// A training step before it has run, as the gemini plugin records it (rehearse). Requires: as chunks_by_unit;
/// `placement` is that of the layout's chunks.
Result<Rehearsal> iteration_of(const shapes::Model& model, const ChunkLayout& layout, const StatePlacement& placement,
                               const Recomputation& recomputation, const EndOfStep& end, const StateFormat& format);

}  // namespace castor::estimate

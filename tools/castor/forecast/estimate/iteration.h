// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/plan/access_trace.h>
#include <castor/plan/move_planner.h>
#include <castor/plan/planner.h>
#include <castor/rules/state_format.h>

#include "forecast/shapes/model_shapes.h"

namespace castor::estimate {

/// The moments of one training step before it has run, as the gemini plugin would record them.
struct Iteration {
  AccessTrace trace;
  std::vector<std::uint64_t> n_bytes;  ///< by chunk
  std::vector<Places> rest;            ///< by chunk: tiers it may rest in between its uses
  std::set<ChunkId> measured;          ///< tiles that are measured in separate moments
};

/// Bytes of a unit's parameters by the layout's chunk that holds them.
using BytesByChunk = std::map<std::uint32_t, std::uint64_t>;

/// The bytes of each unit's own parameters, by unit. Requires: `layout` is that of tensors_of(model).
std::vector<BytesByChunk> chunks_by_unit(const shapes::Model& model, const ChunkLayout& layout);

/// The unit with the largest payload chunks. Requires: as chunks_by_unit.
LargestUnit largest_unit(const shapes::Model& model, const ChunkLayout& layout);

/// How a model's blocks run backward.
struct Recomputation {
  bool on = false;                ///< each block's forward units run again before its backward units
  std::uint64_t input_bytes = 0;  ///< of each block's input, kept in a chunk until then; 0 = not in a chunk
};

/// The work after all gradients are complete.
struct EndOfStep {
  bool clip = false;  ///< updates that are not speculative wait for the norm, and so for the end of backward
  /// Updates on the host run beside the training thread, as soon as a chunk's gradients are complete unless they wait.
  bool overlap_updates = false;
  bool measures_weights = false;    ///< before a chunk's first update, for trust ratios
  bool measures_direction = false;  ///< for tensors in several tiles, in separate moments before a chunk's first update
};

/// Forward units in order, backward units in reverse. Gradients arrive at the backward moment of the unit that owns
/// their parameters, on the tier of their update. Then come the norm and the updates according to `end`: one per tile
/// of each chunk, with states of `format`.
///
/// Chunk ids follow the order in which the optimizer registers the chunks: payload and state tiles of layout chunk 0,
/// those of chunk 1, and so on, then the gradients, then the blocks' inputs. Requires: as chunks_by_unit; `placement`
/// is that of the layout's chunks.
Iteration iteration_of(const shapes::Model& model, const ChunkLayout& layout, const Plan& placement,
                       const Recomputation& recomputation, const EndOfStep& end, const StateFormat& format);

/// The planning problem of `iteration`. The caller fills in room, costs and nvme.
MoveProblem problem_of(const Iteration& iteration);

}  // namespace castor::estimate

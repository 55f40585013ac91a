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

/// The moments of one training step before it has run: those that the gemini plugin records of it.
struct Iteration {
  AccessTrace trace;
  std::vector<std::uint64_t> n_bytes;  ///< by chunk
  std::vector<Places> rest;            ///< by chunk: where it may be between its uses
  std::set<ChunkId> measured;          ///< tiles that are measured in moments of their own
};

/// Bytes of a unit's parameters by the layout's chunk that holds them.
using BytesByChunk = std::map<std::uint32_t, std::uint64_t>;

/// By unit, where its own parameters are. Requires: `layout` is that of tensors_of(model).
std::vector<BytesByChunk> chunks_by_unit(const shapes::Model& model, const ChunkLayout& layout);

/// The unit whose payload chunks take most. Requires: as chunks_by_unit.
LargestUnit largest_unit(const shapes::Model& model, const ChunkLayout& layout);

/// How a model's blocks go backward.
struct Recomputation {
  bool on = false;                ///< each block's forward units once more before its backward units
  std::uint64_t input_bytes = 0;  ///< of each block's input, kept in a chunk until then; 0 = in none
};

/// What happens when all gradients are there.
struct EndOfStep {
  bool clip = false;  ///< updates that are not speculative wait for the norm, and so for the end of backward
  /// Updates on the host run beside the thread; those that do not wait as soon as a chunk's gradients are complete.
  bool overlap_updates = false;
  bool measures_weights = false;  ///< before a chunk's first update, for trust ratios
  bool measures_direction =
      false;  ///< of tensors in several tiles before a chunk's first update, in moments of their own
};

/// Forward units in order, backward units in reverse. Gradients arrive at the backward moment of the unit that owns their
/// parameters, on the tier of their update. Then `end`, and an update per tile of each chunk, of states as `format` says.
///
/// Chunks are numbered payload and tiles of states of layout chunk 0, those of chunk 1, and so on, then the gradients:
/// the order in which the optimizer registers them; then blocks' inputs. Requires: as chunks_by_unit; `placement` is of
/// the layout's chunks.
Iteration iteration_of(const shapes::Model& model, const ChunkLayout& layout, const Plan& placement,
                       const Recomputation& recomputation, const EndOfStep& end, const StateFormat& format);

/// The problem that it poses. Room, costs and nvme are for the caller to fill in.
MoveProblem problem_of(const Iteration& iteration);

}  // namespace castor::estimate

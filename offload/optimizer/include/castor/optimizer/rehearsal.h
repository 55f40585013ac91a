// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/optimizer/step_options.h>
#include <castor/optimizer/step_script.h>
#include <castor/plan/access_trace.h>
#include <castor/plan/move_planner.h>
#include <castor/plan/placement.h>
#include <castor/rules/state_format.h>

namespace castor {

/// A step that is to be rehearsed. All references are borrowed.
struct RehearsedStep {
  const ChunkLayout& layout;
  const IndexedVector<RegisteredId, TensorId>& registration_order;   ///< StateLayout's
  const IndexedVector<UnitId, std::vector<PayloadId>>& unit_chunks;  ///< payload chunks of each unit
  const StepScript& script;
  StateFormat format = {};
  bool overlap = false;      ///< as OffloadOptimizer::Parts
  bool plain_norms = false;  ///< norms scale nothing down, so that updates may be speculative
};

/// The iteration that a rehearsal recorded.
struct Rehearsal {
  AccessTrace trace;                 ///< without times
  MoveProblem problem;               ///< of the trace; room and costs are the caller's to set
  std::vector<ChunkId> activations;  ///< by number in the script
};

/// The moments of a step under `placement`, before it has run: the real optimizer, scheduler and mover go through it
/// until updates come as early as they will in training. Memory is addresses alone, every tier has room, and nothing
/// takes time.
///
/// Chunks get the numbers that they have in training, but for activations. Cost: about 5 µs per chunk that a moment
/// needs. Errors: usage, where the calls are not those of a step.
Result<Rehearsal> rehearse(const RehearsedStep& step, StatePlacement placement, const StepOptions& options);

/// The trace of a rehearsal with times, from those of the iteration `recorded` under another placement: moments that
/// both have take as long. For updates that run in another place the times are guesses, which decide no plan.
/// `activations`: the chunks that hold them in training, by number in the script; the rehearsal's own are replaced.
AccessTrace timed_as(const AccessTrace& recorded, const Rehearsal& step, std::span<const ChunkId> activations);

}  // namespace castor

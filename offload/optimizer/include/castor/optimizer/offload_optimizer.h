// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <castor/memory/host_team.h>
#include <castor/memory/stream_spans.h>
#include <castor/optimizer/gradient_store.h>
#include <castor/optimizer/pending_gradients.h>
#include <castor/optimizer/step_options.h>
#include <castor/plan/placement.h>
#include <castor/rules/grad_norm.h>
#include <castor/schedule/scheduler.h>
#include <castor/states/state_io.h>
#include <castor/states/state_layout.h>

namespace castor {

/// Updates of parameters whose weights, gradients and states lie in chunks over three tiers.
///
/// A chunk is updated on the tier that the placement names: on the device, on the host by a team of threads, or, with
/// states at home below, on the device to which they are streamed. When it is updated depends on the step:
/// - without a norm, during backward, as soon as it has as many gradients as in the step before;
/// - with a norm, in step(); on the host, where the last norms scaled nothing down, speculatively during backward;
/// - with streamed states and a norm, right before the next use of its weights.
///
/// With overlap the training thread does not wait for updates on the host: a chunk's fetch waits for its own update.
///
/// Tensors without a gradient are skipped: moments, decay and step counter. The fp32 master is updated; the weight in
/// the payload is the master, rounded.
///
/// Threads: one at a time.
class OffloadOptimizer {
 public:
  /// Borrowed; must outlive the optimizer.
  struct Parts {
    const ChunkLayout& layout;
    ChunkManager& chunks;
    StatefulTensorMgr& mover;
    Scheduler& scheduler;
    Device& device;
    Stream& compute;
    Stream& down;
    Timeline& timeline;
    StreamSpans& computed;                                            ///< of `compute`
    const IndexedVector<RegisteredId, TensorId>& registration_order;  ///< StateLayout's
    std::function<bool()> interrupted;                                ///< called before every chunk
    HostTeam& team;                                                   ///< updates on the host
    bool overlap = false;     ///< the training thread does not wait for updates on the host
    StateFormat format = {};  ///< of the states of trained tensors
  };

  /// Waits for the updates under way.
  ~OffloadOptimizer();

  /// Registers the payload, state and gradient chunks. Errors: those of the kernels.
  static Result<std::unique_ptr<OffloadOptimizer>> make(Parts parts);

  /// The weights and states, and their reading and writing (StateIo).
  const StateLayout& states() const;
  StateIo& io();
  UpdateBarrier& update_barrier();
  PendingGradients& gradients();

  /// Adopts a placement, after making the updates that wait: where states live and are updated, and gradients gathered,
  /// from now on. Errors: as step.
  [[nodiscard]] Result<void> adopt(StatePlacement placement);

  /// Before the first step, where there is no room for all of its gradients: has its updates made early (announce) as if
  /// each tensor got one gradient and were not used after it.
  void expect_one_gradient_each();

  /// True where the next step makes updates before its norm is known.
  bool speculates() const;
  /// True where it would, if `placement` were adopted.
  bool speculates_under(const StatePlacement& placement) const;

  /// Announces the options of the coming step, before or during its backward pass. If they ask for a norm, gradients
  /// are measured as they arrive (without this call, if the step before asked for one). With overlap chunks are then
  /// updated during backward. Errors: failed, where an earlier step was not ended.
  [[nodiscard]] Result<void> announce(const StepOptions& options);

  /// Takes a gradient (GradientStore::add). Errors: those; failed where the chunk was updated without it, which leaves
  /// the model between two steps.
  [[nodiscard]] Result<void> add_gradient(TensorId tensor, ArrivedGradient gradient);

  /// A unit is about to use the weights of `payload_chunks`: makes the updates that can be made early, so that their
  /// gradients leave room, and those that wait for this use. Errors: as step; failed where the unit's backward pass is
  /// not over and a chunk was updated already.
  [[nodiscard]] Result<void> prepare(std::span<const PayloadId> payload_chunks);
  /// As prepare, for one chunk and without early updates.
  [[nodiscard]] Result<void> use(PayloadId payload_chunk);

  /// True while the update of `payload_chunk` in the last step is still waiting for its next use.
  bool update_waits(PayloadId payload_chunk) const;

  /// Frees gradients that have been read, and with overlap updates the announced step's chunks that are complete and
  /// not in use. Errors: as step.
  [[nodiscard]] Result<void> update_early();

  /// Ends a step: updates every chunk that has gradients and is not updated yet, in the order in which the next forward
  /// pass needs them, and forgets the gradients. With overlap it returns when the updates are queued or deferred to the
  /// next use of their chunk. Errors: those of the mover; interrupted; the error with which a gradient was lost; usage,
  /// where the options are not those announced and chunks have been updated. Before the first updated chunk an error
  /// leaves the model whole and the gradients in place: call step() again, or abandon(). After it an error leaves the
  /// model between two steps, and every later call says so. An update beside the thread reports its error to
  /// the moment that needs its chunk, and to the next step.
  [[nodiscard]] Result<StepScale> step(const StepOptions& options);

  /// Makes the updates of the last step that wait, and waits until all have ended. Between two steps. Errors: as step.
  [[nodiscard]] Result<void> settle();

  /// Drops the step under way, whether it has failed or its backward pass was broken off: its gradients, the error of a
  /// lost one, its announcement and its speculative updates. The next gradient belongs to a new step; the training has
  /// the bits of one in which the dropped step was never begun. Updates that wait since the step before go on waiting.
  /// Errors: failed, where a chunk has been updated for good, so that the model is between two steps; those of the
  /// mover, after which abandon() must be called again before the next gradient.
  [[nodiscard]] Result<void> abandon();

 private:
  struct Rooms;
  class Barrier;

  OffloadOptimizer(Parts parts, std::unique_ptr<Rooms> rooms);
  Result<void> update(PayloadId chunk, const StepOptions& options, double grad_scale);
  Result<void> update_rest(const StepOptions& options, double grad_scale);
  Result<bool> confirm_or_take_back(const StepOptions& options, const StepScale& scale);
  Result<void> admit(PayloadId chunk, const char* what);
  Result<void> complete_last_step();
  Result<void> complete_last_step(PayloadId chunk);
  Result<void> make_deferred(PayloadId chunk);
  Result<void> finish_step(bool as_expected);

  const Parts parts_;
  const std::unique_ptr<Rooms> rooms_;
};

}  // namespace castor

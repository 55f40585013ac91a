// SPDX-License-Identifier: Apache-2.0
#include <castor/optimizer/offload_optimizer.h>

#include <string>
#include <utility>

#include "deferred_updates.h"
#include "early_updates.h"
#include "norms/gradient_norm.h"
#include "running_updates.h"
#include "speculation.h"
#include "step_machine.h"
#include "tile_inputs.h"
#include "norms/trust_measures.h"
#include "undo_chunks.h"
#include "update_runner.h"

namespace castor {

/// Brings chunks up to the last step before their values are read or written.
class OffloadOptimizer::Barrier final : public UpdateBarrier {
 public:
  OffloadOptimizer* optimizer = nullptr;

  Result<void> complete(PayloadId chunk) override;
  Result<void> complete_all() override;
  void values_replaced() override { optimizer->parts_.scheduler.forget_trace(); }
};

/// The collaborators, in the order of their construction: each knows those before it.
struct OffloadOptimizer::Rooms {
  explicit Rooms(const Parts& p) : states(p.layout, p.chunks, p.format, p.registration_order), undo(p.chunks) {}

  /// Errors if an earlier step failed between two chunks, as far as that is known. Waits for no update.
  Result<void> whole();
  /// The kind of the next iteration.
  IterationKind next_kind() const { return speculation->next_kind(norm->wanted(), states.placement()); }

  StepMachine machine;
  StateLayout states;
  UndoChunks undo;
  std::unique_ptr<GradientStore> gradients;
  std::unique_ptr<TileInputs> inputs;
  std::unique_ptr<GradientNorm> norm;
  std::unique_ptr<TrustMeasures> trust;
  std::unique_ptr<UpdateRunner> runner;
  RunningUpdates running;  ///< beside the thread, not to be taken back
  std::unique_ptr<Speculation> speculation;
  std::unique_ptr<EarlyUpdates> early;
  std::unique_ptr<DeferredUpdates> deferred;
  StepOptions announced;
  Barrier barrier;
  std::unique_ptr<StateIo> io;
  std::unique_ptr<PendingGradients> pending;
};

namespace {

/// The journal of updates that are made for good.
class ForGood final : public UpdateJournal {
 public:
  ForGood(StepMachine& machine, RunningUpdates& running) : machine_(machine), running_(running) {}

  bool keeps_old() const override { return false; }
  Result<void> begin_tile(TileId) override { return machine_.take(StepEvent::update); }
  void counted(TensorId) override {}
  void started(TileId, const Event& updated) override { running_.add(updated); }
  std::shared_ptr<std::atomic<bool>> cancelled() const override { return nullptr; }

 private:
  StepMachine& machine_;
  RunningUpdates& running_;
};

/// The error of a gradient or use that comes after the early update of the chunk with `label`.
Error too_late(const std::string& what, const std::string& label, bool assumed) {
  if (assumed)
    return {ErrorKind::does_not_fit,
            what + " " + label +
                " after its update, which the first step made early, because not all of its gradients fit; this model "
                "needs them all: raise `nvme_budget` or `host_budget`",
            "nvme_budget"};
  return {ErrorKind::failed,
          what + " " + label +
              " after its update, which was made as early as the order of the step before allowed; the model changes "
              "that order in every step: set overlap_updates=false",
          "overlap_updates"};
}

/// Forgets the gradients of all chunks but those whose update waits.
Result<void> clear_all_but(const DeferredUpdates& deferred, const StateLayout& states, GradientStore& gradients) {
  for (const PayloadId chunk : states.chunks())
    if (states.shape(chunk).trainable && !deferred.waits(chunk)) CASTOR_TRY(gradients.clear(chunk));
  return {};
}

}  // namespace

Result<void> OffloadOptimizer::Rooms::whole() {
  const auto ended = running.ended();
  if (ended.ok()) return machine.whole();
  machine.lose();
  return Error{ErrorKind::failed, machine.whole().error().message + " (" + ended.error().message + ")"};
}

OffloadOptimizer::OffloadOptimizer(Parts parts, std::unique_ptr<Rooms> rooms)
    : parts_(std::move(parts)), rooms_(std::move(rooms)) {
  rooms_->barrier.optimizer = this;
}

OffloadOptimizer::~OffloadOptimizer() = default;

Result<std::unique_ptr<OffloadOptimizer>> OffloadOptimizer::make(Parts p) {
  auto rooms = std::make_unique<Rooms>(p);
  Rooms& r = *rooms;
  CASTOR_ASSIGN(r.gradients, GradientStore::make({p.layout, p.chunks, p.mover, p.device, p.compute, p.down, p.team}));
  r.inputs = std::make_unique<TileInputs>(TileInputs{r.states, *r.gradients, p.chunks, r.undo, p.device});
  CASTOR_ASSIGN(r.norm, GradientNorm::make(
                            {r.states, *r.gradients, p.chunks, p.mover, p.scheduler, p.device, p.compute, p.team}));
  r.trust = std::make_unique<TrustMeasures>(TrustMeasures::Parts{*r.inputs, p.scheduler, p.compute, p.team, p.overlap});
  CASTOR_ASSIGN(r.runner, UpdateRunner::make({*r.inputs, *r.trust, p.mover, p.scheduler, p.compute, p.timeline,
                                              p.computed, p.team, p.overlap}));
  r.speculation =
      std::make_unique<Speculation>(Speculation::Parts{*r.inputs, *r.runner, p.scheduler, p.team, r.machine});
  r.early = std::make_unique<EarlyUpdates>(p.layout);
  r.deferred = std::make_unique<DeferredUpdates>(p.layout.chunks.size());
  r.io = std::make_unique<StateIo>(StateIo::Parts{r.states, p.chunks, p.mover, p.team, r.barrier, p.interrupted});
  r.pending = std::make_unique<PendingGradients>(
      PendingGradients::Parts{*r.gradients, *r.norm, r.barrier, r.machine, p.layout, p.mover});
  return std::unique_ptr<OffloadOptimizer>(new OffloadOptimizer(std::move(p), std::move(rooms)));
}

const StateLayout& OffloadOptimizer::states() const { return rooms_->states; }
StateIo& OffloadOptimizer::io() { return *rooms_->io; }
UpdateBarrier& OffloadOptimizer::update_barrier() { return rooms_->barrier; }
PendingGradients& OffloadOptimizer::gradients() { return *rooms_->pending; }

Result<void> OffloadOptimizer::Barrier::complete(PayloadId chunk) {
  if (optimizer->rooms_->early->updated(chunk))
    return Error{ErrorKind::usage, "parameters were asked for between their early update and the end of their step"};
  CASTOR_TRY(optimizer->complete_last_step(chunk));
  return optimizer->rooms_->whole();
}

Result<void> OffloadOptimizer::Barrier::complete_all() {
  CASTOR_TRY(optimizer->complete_last_step());
  CASTOR_TRY(optimizer->rooms_->whole());
  if (optimizer->rooms_->machine.in(StepState::updating))
    return Error{ErrorKind::usage, "parameters were to be kept between their early update and the end of their step"};
  return {};
}

Result<void> OffloadOptimizer::adopt(StatePlacement placement) {
  CASTOR_TRY(complete_last_step());
  StateLayout& states = rooms_->states;
  states.adopt(std::move(placement));
  rooms_->speculation->forget_refusals();
  for (const PayloadId chunk : states.chunks())
    if (states.shape(chunk).trainable) rooms_->gradients->set_tier(chunk, states.update_tier(chunk));
  for (const auto& [id, rest] : states.rest_under(states.placement())) parts_.mover.planned().set_rest(id, rest);
  parts_.scheduler.select(rooms_->next_kind());
  parts_.scheduler.forget_trace();
  return {};
}

void OffloadOptimizer::expect_one_gradient_each() { rooms_->early->expect_one_each(); }

bool OffloadOptimizer::speculates_under(const StatePlacement& placement) const {
  return rooms_->speculation->next_kind(rooms_->norm->wanted(), placement) == IterationKind::speculative;
}

bool OffloadOptimizer::speculates() const { return speculates_under(rooms_->states.placement()); }

Result<void> OffloadOptimizer::announce(const StepOptions& options) {
  CASTOR_TRY(complete_last_step());
  CASTOR_TRY(rooms_->whole());
  CASTOR_TRY(rooms_->machine.take(StepEvent::announce));
  rooms_->norm->want(options.needs_norm());
  if (!parts_.overlap) return {};
  rooms_->announced = options;
  rooms_->early->announce();
  return {};
}

Result<void> OffloadOptimizer::add_gradient(TensorId tensor, ArrivedGradient gradient) {
  const PayloadId chunk = parts_.layout.tensors.at(tensor).chunk;
  if (auto admitted = admit(chunk, "a gradient arrived for"); !admitted.ok()) {
    if (gradient.free) gradient.free();
    return admitted;
  }
  rooms_->norm->arrived(tensor, gradient.data);
  CASTOR_TRY(rooms_->gradients->add(tensor, std::move(gradient)));
  if (rooms_->early->announced()) rooms_->early->landed(tensor);
  return {};
}

Result<void> OffloadOptimizer::prepare(std::span<const PayloadId> payload_chunks) {
  CASTOR_TRY(update_early());
  for (const PayloadId chunk : payload_chunks) CASTOR_TRY(use(chunk));
  return {};
}

Result<void> OffloadOptimizer::use(PayloadId chunk) {
  CASTOR_TRY(admit(chunk, "a unit needs"));
  if (rooms_->early->announced()) rooms_->early->used(chunk);
  return {};
}

/// Completes the last step of `chunk` for a gradient or a use, of which `what` begins the description. Errors: failed,
/// where the chunk has been updated early, which leaves the model between two steps.
Result<void> OffloadOptimizer::admit(PayloadId chunk, const char* what) {
  if (!rooms_->early->updated(chunk)) return complete_last_step(chunk);
  rooms_->machine.lose();
  return too_late(what, parts_.chunks.chunk(rooms_->states.payload(chunk)).label, rooms_->early->assumes());
}

bool OffloadOptimizer::update_waits(PayloadId chunk) const { return rooms_->deferred->waits(chunk); }

/// Makes the weights and states of `chunk` those of the last step that has ended: takes back its speculative update, or
/// makes the one that waits.
Result<void> OffloadOptimizer::complete_last_step(PayloadId chunk) {
  CASTOR_TRY(rooms_->speculation->take_back(chunk));
  return make_deferred(chunk);
}

/// The same for all chunks.
Result<void> OffloadOptimizer::complete_last_step() {
  CASTOR_TRY(rooms_->speculation->take_back_all());
  for (const PayloadId chunk : rooms_->states.chunks()) CASTOR_TRY(make_deferred(chunk));
  return {};
}

/// Makes the update of `chunk` that waits since the last step.
Result<void> OffloadOptimizer::make_deferred(PayloadId chunk) {
  DeferredUpdates& deferred = *rooms_->deferred;
  if (!deferred.take(chunk)) return {};
  if (auto updated = update(chunk, deferred.options(), deferred.grad_scale()); !updated.ok()) {
    rooms_->machine.lose();
    return updated;
  }
  if (auto cleared = rooms_->gradients->clear(chunk); !cleared.ok()) {
    rooms_->machine.lose();
    return cleared;
  }
  return deferred.any() ? Result<void>() : rooms_->machine.take(StepEvent::catch_up);
}

/// Updates one chunk for good.
Result<void> OffloadOptimizer::update(PayloadId chunk, const StepOptions& options, double grad_scale) {
  ForGood journal(rooms_->machine, rooms_->running);
  CASTOR_TRY(rooms_->runner->update(chunk, {options, grad_scale}, journal));
  return rooms_->gradients->release(chunk);
}

/// Leaves chunks whose states are on the device to the step: their update takes no time there.
Result<void> OffloadOptimizer::update_early() {
  rooms_->gradients->in_flight().free_read();
  CASTOR_TRY(rooms_->machine.whole());  // a chunk whose update failed has no gradients any more
  const StepOptions& options = rooms_->announced;
  for (const PayloadId chunk : rooms_->early->ready()) {
    const bool on_device = rooms_->states.home(chunk) == Tier::device;
    if (on_device || parts_.chunks.chunk(rooms_->states.payload(chunk)).pinned()) continue;
    if (options.needs_norm()) {
      if (rooms_->speculation->may_update(chunk)) CASTOR_TRY(rooms_->speculation->update(chunk, options));
      continue;
    }
    if (auto updated = update(chunk, options, StepScale().grad_scale); !updated.ok()) {
      rooms_->machine.fail();
      return updated;
    }
    rooms_->early->set_updated(chunk);
  }
  return {};
}

Result<StepScale> OffloadOptimizer::step(const StepOptions& options) {
  for (const PayloadId chunk : rooms_->states.chunks()) CASTOR_TRY(make_deferred(chunk));
  CASTOR_TRY(rooms_->whole());
  CASTOR_TRY(parts_.scheduler.await_times());
  StepMachine& machine = rooms_->machine;
  if (machine.in(StepState::updating) && options != rooms_->announced)
    return Error{
        ErrorKind::usage,
        "step is called with other values than were announced, with which some parameters are updated already"};
  const auto intact = rooms_->gradients->intact();
  if (options != rooms_->announced || !intact.ok()) CASTOR_TRY(rooms_->speculation->take_back_all());
  if (!intact.ok()) {
    machine.fail();
    return intact.error();
  }
  CASTOR_ASSIGN(const StepScale scale, rooms_->norm->measure(options));
  CASTOR_ASSIGN(const bool as_expected, confirm_or_take_back(options, scale));
  if (!scale.skip) {
    if (auto updated = update_rest(options, scale.grad_scale); !updated.ok()) {
      rooms_->deferred->clear();  // either no chunk is updated, or the model is poisoned
      machine.fail();
      return updated.error();
    }
  }
  CASTOR_TRY(finish_step(as_expected));
  return scale;
}

/// Called when the norm is known: the speculative updates are made for good, or taken back where the norm scales
/// gradients down. Returns false in the second case, and where an update was dropped: the iteration is not one to
/// expect again.
Result<bool> OffloadOptimizer::confirm_or_take_back(const StepOptions& options, const StepScale& scale) {
  if (!options.needs_norm()) return true;
  Speculation& speculation = *rooms_->speculation;
  const bool plain = !scale.skip && scale.grad_scale == plain_scale(options);
  speculation.note_norm(plain);
  if (speculation.half_taken_back() || (!plain && speculation.any())) {
    CASTOR_TRY(speculation.take_back_all());
    return false;
  }
  const auto confirmed = speculation.confirm_all();
  for (const Speculation::Confirmed& one : confirmed) {
    CASTOR_TRY(rooms_->machine.take(StepEvent::update));
    rooms_->early->set_updated(one.chunk);
    for (const Event& update : one.updates) rooms_->running.add(update);
  }
  for (const Speculation::Confirmed& one : confirmed)
    if (auto released = rooms_->gradients->release(one.chunk); !released.ok()) {
      rooms_->machine.fail();
      return released.error();
    }
  return !speculation.dropped();
}

/// Updates the chunks that were not updated early. With overlap, updates of streamed states are deferred: the states
/// are fetched to the device while the units before their chunk's next use compute.
Result<void> OffloadOptimizer::update_rest(const StepOptions& options, double grad_scale) {
  const StateLayout& states = rooms_->states;
  rooms_->deferred->begin(options, grad_scale);
  for (const PayloadId chunk : states.chunks()) {
    if (!states.shape(chunk).trainable || !rooms_->gradients->any(chunk) || rooms_->early->updated(chunk)) continue;
    if (parts_.interrupted()) return Error{ErrorKind::interrupted, "interrupted while the parameters were updated"};
    if (parts_.overlap && states.placement().streamed[chunk])
      rooms_->deferred->add(chunk);
    else
      CASTOR_TRY(update(chunk, options, grad_scale));
  }
  return {};
}

Result<void> OffloadOptimizer::settle() {
  CASTOR_TRY(complete_last_step());
  CASTOR_TRY(rooms_->whole());
  for (const Event& update : rooms_->running.still_running())
    CASTOR_TRY(parts_.mover.join_host(update, "the updates of the last step"));
  CASTOR_TRY(parts_.mover.join_compute());
  return rooms_->whole();
}

Result<void> OffloadOptimizer::abandon() {
  CASTOR_TRY(rooms_->whole());
  CASTOR_TRY(parts_.scheduler.await_times());
  CASTOR_TRY(rooms_->machine.take(StepEvent::abandon));
  CASTOR_TRY(rooms_->speculation->take_back_all());
  CASTOR_TRY(clear_all_but(*rooms_->deferred, rooms_->states, *rooms_->gradients));
  rooms_->gradients->end_step();
  rooms_->early->abandon();
  rooms_->speculation->end_step();
  if (parts_.scheduler.in_iteration()) parts_.scheduler.break_off();
  parts_.scheduler.select(rooms_->next_kind());
  return {};
}

/// An iteration without updates (its step was skipped, or had no gradients) is not expected again.
Result<void> OffloadOptimizer::finish_step(bool as_expected) {
  const bool updated = rooms_->machine.in(StepState::updating) || rooms_->deferred->any();
  auto cleared = clear_all_but(*rooms_->deferred, rooms_->states, *rooms_->gradients);
  if (!cleared.ok()) {
    rooms_->machine.lose();
    return cleared;
  }
  rooms_->gradients->end_step();
  rooms_->early->end_step();
  rooms_->speculation->end_step();
  CASTOR_TRY(rooms_->machine.take(rooms_->deferred->any() ? StepEvent::defer : StepEvent::end));
  as_expected&& updated ? parts_.scheduler.end_iteration() : parts_.scheduler.break_off();
  parts_.scheduler.select(rooms_->next_kind());
  return {};
}

}  // namespace castor

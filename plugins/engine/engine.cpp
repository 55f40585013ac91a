// SPDX-License-Identifier: Apache-2.0
#include <castor/engine/engine.h>

#include <functional>
#include <string>
#include <utility>

#include <castor/memory/bytes.h>
#include <castor/plugins/step_args.h>

#include "engine_activations.h"
#include "engine_commits.h"
#include "engine_rooms.h"
#include "engine_stats.h"
#include "lent_weights.h"
#include "model_values.h"
#include "placer.h"
#include "speculation_room.h"
#include "trace_writer.h"
#include "tuning/tuner.h"
#include "unit_passes.h"

namespace castor {
namespace {

/// The options of a step by tensor of the layout instead of by parameter. Errors: usage, where states of `format` are
/// kept for another rule than the step's.
Result<StepOptions> options_of(const ModelShape& model, const StateFormat& format, const castor_step_args& args) {
  const auto by_param = step_options(args, static_cast<std::uint32_t>(model.params.size()));
  if (const bool adam = keeps_exp_avg_sq(by_param.update); adam != format.keeps_exp_avg_sq)
    return Error{ErrorKind::usage,
                 std::string("gemini: the step is one of ") + (adam ? "Adam or LAMB" : "SGD or LARS") +
                     ", the states are kept for another rule; set optimizer=" + (adam ? "adam" : "sgd"),
                 "optimizer"};
  StepOptions options{by_param.update, by_param.max_norm, by_param.loss_scale, by_param.groups};
  if (by_param.groups.empty()) return options;
  for (const ParamId param : model.order) options.group_of.push_back(by_param.group_of[param]);
  return options;
}

/// A step that updated nothing shows too little of what a step needs: as long as no other was recorded, it is as if it
/// had not been made.
void end_recording(EngineRooms& rooms, const StepOptions& options) {
  const bool updated = !rooms.scheduler->trace().empty();
  updated ? rooms.calls.end_step(options) : rooms.calls.break_off();
  updated ? rooms.watch.end_step() : rooms.watch.break_off();
}

}  // namespace

Engine::Engine(std::unique_ptr<EngineRooms> rooms)
    : rooms_(std::move(rooms)),
      lent_(std::make_unique<LentWeights>(*rooms_)),
      values_(std::make_unique<ModelValues>(ModelValues::Parts{.host = rooms_->host,
                                                               .model = rooms_->model,
                                                               .place_of = rooms_->place_of,
                                                               .timeline = rooms_->timeline,
                                                               .io = rooms_->optimizer->io(),
                                                               .gradients = rooms_->optimizer->gradients(),
                                                               .bindings = *rooms_->bindings,
                                                               .lent = *lent_})),
      passes_(std::make_unique<UnitPasses>(*rooms_, *values_, *lent_)),
      placer_(std::make_unique<Placer>(*rooms_)),
      activations_(std::make_unique<EngineActivations>(*rooms_, *placer_)),
      speculation_room_(std::make_unique<SpeculationRoom>(*rooms_, *placer_)),
      tuner_(std::make_unique<Tuner>(*rooms_, *placer_)),
      commits_(std::make_unique<EngineCommits>(EngineCommits::Parts{.memory = *rooms_->memory,
                                                                    .chunks = *rooms_->chunks,
                                                                    .optimizer = *rooms_->optimizer,
                                                                    .values = *values_,
                                                                    .mover = *rooms_->mover})) {}

/// A drive that hangs must not hold up the end of a commit that was given up.
Engine::~Engine() { rooms_->give_up_drives(); }

Result<std::unique_ptr<Engine>> Engine::make(ModelHost& host, const EngineOptions& options, const Machine& machine) {
  CASTOR_ASSIGN(auto rooms, EngineRooms::make(host, options, machine));
  std::unique_ptr<Engine> engine(new Engine(std::move(rooms)));
  CASTOR_TRY(engine->commits_->open(options.durability));
  return engine;
}

Result<void> Engine::attach() {
  CASTOR_TRY(placer_->place_first());
  if (!commits_->found()) CASTOR_TRY(values_->initialise());
  rooms_->watch.look();
  rooms_->sample();
  return {};
}

Result<void> Engine::before_forward(std::uint32_t unit) { return passes_->begin_forward(UnitId{unit}); }

Result<void> Engine::after_forward(std::uint32_t unit) {
  passes_->end_forward(UnitId{unit});
  return {};
}

Result<void> Engine::before_backward(std::uint32_t unit) { return passes_->begin_backward(UnitId{unit}); }

Result<void> Engine::after_backward(std::uint32_t unit) {
  passes_->end_backward(UnitId{unit});
  return {};
}

/// The gradient is freed in any case, also on errors.
Result<void> Engine::gradient(std::uint32_t of_param, DLManagedTensor* grad) {
  const ParamId param{of_param};
  std::function<void()> give_back;
  if (grad->deleter != nullptr) give_back = [grad] { grad->deleter(grad); };
  if (rooms_->model.params.at(param).empty()) {
    if (give_back) give_back();
    return {};
  }
  const void* data = static_cast<const std::byte*>(grad->dl_tensor.data) + grad->dl_tensor.byte_offset;
  const TensorId tensor = rooms_->tensor_of(param);
  rooms_->calls.add(StepCall::Kind::gradient, number(tensor));
  return rooms_->optimizer->add_gradient(tensor, {data, std::move(give_back)});
}

Result<void> Engine::end_of_backward() {
  passes_->end_micro_batch();
  rooms_->watch.begin_rest();
  rooms_->sample();
  rooms_->calls.add(StepCall::Kind::end_of_backward);
  CASTOR_TRY(rooms_->optimizer->update_early());
  return placer_->place_for_sums();
}

Result<void> Engine::announce_step(const castor_step_args& args) {
  CASTOR_ASSIGN(const StepOptions options, options_of(rooms_->model, rooms_->options.format, args));
  tuner_->begin_backward();
  rooms_->calls.add(StepCall::Kind::announce);
  return rooms_->optimizer->announce(options);
}

Result<std::uint64_t> Engine::begin_step(const castor_step_args& args) {
  EngineRooms& r = *rooms_;
  CASTOR_ASSIGN(const StepOptions options, options_of(r.model, r.options.format, args));
  // Without overlap the updates need most gradients at once; waiting here keeps the rest of backward out of the times
  // of waiting and of updating.
  if (!r.options.overlap_updates) CASTOR_TRY(r.compute->record().wait());
  const std::uint64_t start_ns = r.timeline.now_ns();
  passes_->end_step();
  r.watch.begin_rest();
  auto stepped = r.optimizer->step(options);
  tuner_->end_updates();
  CASTOR_ASSIGN(const StepScale scale, std::move(stepped));
  end_recording(r, options);
  r.sample();
  for (const PayloadId chunk : r.layout.chunks.ids())
    if (r.optimizer->update_waits(chunk)) r.bindings->outdated(chunk);
  CASTOR_TRY(after_step(options.needs_norm()));
  r.update_seconds += static_cast<double>(r.timeline.now_ns() - start_ns) * 1e-9;
  r.timeline.end_step();
  return tickets_.add(scale.skip, options.needs_norm() ? scale.grad_norm : -1);
}

Result<castor_step_result> Engine::step_result(std::uint64_t ticket) { return tickets_.result_of(ticket); }

Result<void> Engine::discard_gradients() {
  passes_->end_step();
  tuner_->end_updates();
  rooms_->calls.break_off();
  rooms_->watch.break_off();
  CASTOR_TRY(rooms_->optimizer->abandon());
  return placer_->repeat_warm_up();
}

/// Places again after the warm-up; then takes room for speculative updates; then has the Tuner choose the settings of
/// the next step.
Result<void> Engine::after_step(bool wants_norm) {
  if (rooms_->warming_up && rooms_->scheduler->trace().empty()) return placer_->repeat_warm_up();
  if (std::exchange(rooms_->warming_up, false)) {
    if (rooms_->measures()) CASTOR_TRY(placer_->place_in_measured_room());
    if (wants_norm) tell_speculation(*rooms_, rooms_->optimizer->states().placement());
  }
  CASTOR_TRY(speculation_room_->after_step(wants_norm, !tuner_->tries_placements()));
  return speculation_room_->pending() ? Result<void>() : tuner_->after_step();
}

ValueCalls& Engine::values() { return *values_; }
CommitCalls& Engine::commits() { return *commits_; }
ActivationCalls& Engine::activations() { return *activations_; }

Result<double> Engine::measure_norm() { return rooms_->optimizer->gradients().norm(); }

/// Weights leave first that the next step needs last. A tier below that is full ends it: the caller has its own error.
Result<std::uint64_t> Engine::reclaim(std::uint64_t n_bytes) {
  EngineRooms& r = *rooms_;
  std::uint64_t freed_bytes = 0;
  for (std::uint32_t left = r.layout.chunks.size(); left > 0 && freed_bytes < n_bytes; --left) {
    const ChunkId weights = r.optimizer->states().payload(PayloadId{left - 1});
    if (!r.chunks->chunk(weights).resident(Tier::device) || r.chunks->chunk(weights).pinned()) continue;
    if (!r.mover->push_down(weights, Tier::device).ok()) break;
    CASTOR_TRY(r.mover->join_compute());  // nothing reads the slot any more, nor its copy to the host
    CASTOR_TRY(r.down->record().wait());
    CASTOR_ASSIGN(const std::uint64_t slot_bytes, r.chunks->reap(Tier::device));
    freed_bytes += slot_bytes;
  }
  return freed_bytes;
}

Result<castor_stats> Engine::stats() {
  rooms_->watch.look();
  rooms_->sample();
  return stats_of(*rooms_);
}

bool Engine::tuned() const { return !rooms_->warming_up && !speculation_room_->pending() && tuner_->over(); }

Result<void> Engine::settle() { return rooms_->optimizer->settle(); }

Result<void> Engine::write_trace(const char* path) {
  passes_->end_span();
  CASTOR_TRY(rooms_->compute->record().wait());
  rooms_->computed->settle();
  CASTOR_TRY(rooms_->scheduler->settle_times());
  return castor::write_trace(path, *rooms_);
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/engine/engine.h>

#include <functional>
#include <string>
#include <utility>

#include <castor/memory/bytes.h>
#include <castor/plugins/step_args.h>

#include "engine_commits.h"
#include "engine_rooms.h"
#include "engine_stats.h"
#include "model_values.h"
#include "placer.h"
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
                     ", the states are kept for another rule; set optimizer=" + (adam ? "adam" : "sgd")};
  StepOptions options{by_param.update, by_param.max_norm, by_param.loss_scale, by_param.groups};
  if (by_param.groups.empty()) return options;
  for (const ParamId param : model.order) options.group_of.push_back(by_param.group_of[param]);
  return options;
}

/// Tells the user that one step will be slow because host memory is being pinned.
void tell_speculation(const EngineRooms& rooms) {
  const std::uint64_t n_bytes = rooms.optimizer->states().placement().speculation_bytes;
  if (n_bytes == 0) return;
  rooms.log(CASTOR_LOG_INFO,
            format_bytes(n_bytes) +
                " more of the host are taken, once, for updates that begin before the norm of the gradients "
                "is known; speculative_updates=off takes none");
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
      values_(std::make_unique<ModelValues>(ModelValues::Parts{.host = rooms_->host,
                                                               .model = rooms_->model,
                                                               .place_of = rooms_->place_of,
                                                               .timeline = rooms_->timeline,
                                                               .io = rooms_->optimizer->io()})),
      passes_(std::make_unique<UnitPasses>(*rooms_, *values_)),
      placer_(std::make_unique<Placer>(*rooms_)),
      tuner_(std::make_unique<Tuner>(*rooms_, *placer_)),
      commits_(std::make_unique<EngineCommits>(
          EngineCommits::Parts{.memory = *rooms_->memory,
                               .chunks = *rooms_->chunks,
                               .optimizer = *rooms_->optimizer,
                               .values = *values_,
                               .mover = *rooms_->mover})) {}

/// A drive that hangs must not hold up the end of a commit that was given up.
Engine::~Engine() { rooms_->give_up_drives(); }

Result<std::unique_ptr<Engine>> Engine::make(const castor_host_v1& host, const EngineOptions& options,
                                             const Machine& machine) {
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
  auto checked = check_gradient(rooms_->model, param, grad->dl_tensor);
  if (!checked.ok() || rooms_->model.params[param].empty()) {
    if (give_back) give_back();
    return checked;
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
  return rooms_->optimizer->update_early();
}

Result<void> Engine::announce_step(const castor_step_args& args) {
  CASTOR_ASSIGN(const StepOptions options, options_of(rooms_->model, rooms_->options.format, args));
  tuner_->begin_backward();
  rooms_->calls.add(StepCall::Kind::announce);
  return rooms_->optimizer->announce(options);
}

Result<castor_step_result> Engine::step(const castor_step_args& args) {
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
  castor_step_result result{};
  result.struct_size = sizeof result;
  result.skipped = scale.skip ? 1 : 0;
  result.grad_norm = options.needs_norm() ? scale.grad_norm : -1;
  return result;
}

Result<void> Engine::abandon_step() {
  passes_->end_step();
  tuner_->end_updates();
  rooms_->calls.break_off();
  rooms_->watch.break_off();
  return rooms_->optimizer->abandon();
}

/// Places again after the warm-up, and has the Tuner choose the settings of the next step.
Result<void> Engine::after_step(bool wants_norm) {
  if (warming_up_ && rooms_->scheduler->trace().empty()) return {};
  if (std::exchange(warming_up_, false)) {
    if (rooms_->measures()) CASTOR_TRY(placer_->place_in_measured_room());
    if (wants_norm) tell_speculation(*rooms_);
  }
  return tuner_->after_step();
}

Result<void> Engine::read_master(std::uint32_t param, float* out) { return values_->read_master(ParamId{param}, out); }

Result<void> Engine::read_state(castor_param_state& state) { return values_->read(state); }

Result<void> Engine::write_state(const castor_param_state& state) { return values_->write(state); }

Result<castor_commit_result> Engine::commit(std::uint64_t step, std::string_view note) {
  return commits_->commit(step, note);
}

Result<std::optional<CommittedRun>> Engine::committed() { return commits_->last(); }

Result<void> Engine::restore() {
  CASTOR_TRY(commits_->restore());
  rooms_->sample();
  return {};
}

Result<castor_stats> Engine::stats() {
  rooms_->watch.look();
  rooms_->sample();
  return stats_of(*rooms_);
}

Result<void> Engine::write_trace(const std::filesystem::path& path) {
  passes_->end_span();
  CASTOR_TRY(rooms_->compute->record().wait());
  rooms_->computed->settle();
  CASTOR_TRY(rooms_->scheduler->settle_times());
  return castor::write_trace(path, *rooms_);
}

Result<std::optional<std::uint32_t>> Engine::keep(const void* data, std::uint64_t n_bytes) {
  if (!rooms_->options.offload_activations) return std::optional<std::uint32_t>();
  if (warming_up_) placer_->make_room_for_activation(n_bytes);
  if (!placer_->has_room_for_activation(n_bytes)) return std::optional<std::uint32_t>();
  CASTOR_ASSIGN(const std::optional<ChunkId> chunk, rooms_->activations->keep(data, n_bytes));
  if (!chunk) return std::optional<std::uint32_t>();
  rooms_->calls.keep(*chunk, n_bytes);
  return std::optional(number(*chunk));
}

Result<void*> Engine::recall(std::uint32_t kept) {
  rooms_->calls.about(StepCall::Kind::recall, ChunkId{kept});
  CASTOR_ASSIGN(const BufferView view, rooms_->activations->recall(ChunkId{kept}));
  return static_cast<void*>(view.data);
}

Result<void> Engine::forget(std::uint32_t kept) {
  rooms_->calls.about(StepCall::Kind::forget, ChunkId{kept});
  return rooms_->activations->forget(ChunkId{kept});
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "gemini_strategy.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <castor/states/model_chunks.h>
#include <castor/plugins/step_args.h>

#include "trace_writer.h"

namespace castor {
namespace {

/// Why nobody may touch a parameter.
constexpr const char* kReleased =
    "it is not on the device now: its chunk was released, and nobody outside its unit may touch it";
constexpr const char* kPending =
    "it is not up to date: its update waits for its unit's next use, and nobody outside that may touch it";

StateValues states_of(const castor_param_state& state) {
  return {state.first, state.n, state.master, state.exp_avg, state.exp_avg_sq, state.n_updates};
}

/// Who waits for first values hears so often how far they are.
constexpr std::uint64_t kTellEveryNs = 10'000'000'000;

/// Those of the process's processors, where nobody says otherwise.
unsigned update_threads(const GeminiOptions& options) {
  if (options.update_threads > 0) return options.update_threads;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? static_cast<unsigned>(CPU_COUNT(&allowed)) : 1;
}

}  // namespace

Result<std::unique_ptr<GeminiStrategy>> GeminiStrategy::make(const castor_host_v1& host, const GeminiOptions& options) {
  CASTOR_ASSIGN(ModelShape model, ModelShape::read(host));
  CASTOR_ASSIGN(auto memory, GeminiMemory::make(host, options));
  GeminiOptions within = options;
  within.device_budget_bytes = memory->within_capacity(host, options.device_budget_bytes);
  std::unique_ptr<GeminiStrategy> strategy(new GeminiStrategy(host, within, std::move(memory), std::move(model)));
  CASTOR_TRY(strategy->build());
  return strategy;
}

GeminiStrategy::GeminiStrategy(const castor_host_v1& host, const GeminiOptions& options,
                               std::unique_ptr<GeminiMemory> memory, ModelShape model)
    : host_(host),
      options_(options),
      memory_(std::move(memory)),
      model_(std::move(model)),
      watch_(host, memory_->taken_by_chunks(), memory_->on_gpu()),
      thread_trial_(update_threads(options)) {}

GeminiStrategy::~GeminiStrategy() {
  if (!optimizer_) return;  // could not be built
  (void)chunks_->drain();
  for (std::uint32_t i = 0; i < layout_.chunks.size(); ++i) unbind(optimizer_->states().payload(i), kReleased);
}

std::uint64_t GeminiStrategy::chunk_bytes(const std::vector<TensorSpec>& tensors) const {
  if (options_.chunk_bytes > 0) return options_.chunk_bytes;
  return chunk_bytes_under(tensors, options_.device_budget_bytes, options_.host_budget_bytes);
}

/// Lays the parameters out in the order of their first use.
void GeminiStrategy::lay_out() {
  std::vector<TensorSpec> ordered;
  place_of_.resize(model_.tensors.size());
  for (const std::uint32_t param : model_.order) {
    place_of_[param] = static_cast<std::uint32_t>(ordered.size());
    ordered.push_back(model_.tensors[param]);
  }
  layout_ =
      plan_layout(ordered, layout_options(ordered, options_.format, chunk_bytes(ordered), memory_->spill() != nullptr));
  slots_ = slot_sizes(layout_, options_.format);
  memory_->choose_pages(host_, slots_);
  params_.resize(model_.tensors.size());
  units_.resize(model_.units.size());
}

/// Puts the rooms together.
Result<void> GeminiStrategy::build() {
  lay_out();
  Device& device = memory_->device();
  compute_ = device.wrap_compute_stream(host_.compute_stream(host_.self));
  computed_ = std::make_unique<StreamSpans>(timeline_, *compute_);
  CASTOR_ASSIGN(up_, device.make_stream());
  CASTOR_ASSIGN(down_, device.make_stream());
  chunks_ = std::make_unique<ChunkManager>(ChunkManager::Places{memory_->device_slots(), memory_->host_buffers(),
                                                                memory_->spill(), *compute_, *up_, *down_, timeline_,
                                                                [this](ChunkId id) { if (optimizer_) unbind(id, kReleased); }});
  const Budget &device_budget = memory_->device_chunks(), &host_budget = memory_->host_budget();
  mover_ = std::make_unique<StatefulTensorMgr>(
      StatefulTensorMgr::Parts{*chunks_, device_budget, host_budget, *compute_, timeline_});
  scheduler_ = std::make_unique<Scheduler>(Scheduler::Parts{*mover_, *chunks_, device_budget, host_budget, *compute_,
                                                            timeline_, memory_->link_costs()});
  auto team = make_host_team(thread_trial_.all_threads());
  if (!team.ok()) return Error{team.error().kind, team.error().message + "; set update_threads lower"};
  team_ = std::move(team.value());
  CASTOR_ASSIGN(optimizer_,
                OffloadOptimizer::make({layout_, *chunks_, *mover_, *scheduler_, device, *compute_, *down_, timeline_,
                                        *computed_, place_of_, [this] { return host_.interrupted(host_.self) != 0; },
                                        *team_, options_.overlap_updates, options_.format}));
  CASTOR_TRY(open_commits());

  for (const auto& params : model_.units) {
    std::set<std::uint32_t> used;
    for (const std::uint32_t param : params) used.insert(layout_.tensors[place_of_[param]].chunk);
    auto& needs = needs_.emplace_back();
    for (const std::uint32_t chunk : used) needs.push_back({optimizer_->states().payload(chunk), Tier::device, Access::read});
    used_.emplace_back(used.begin(), used.end());
  }
  largest_unit_ = largest_unit();
  activations_ = std::make_unique<ActivationStore>(ActivationStore::Parts{*chunks_, *mover_, *compute_});
  return {};
}

/// Gives the parameters their first values, unless they have any.
Result<void> GeminiStrategy::fill() {
  if (std::exchange(filled_, true)) return {};
  const auto init = [this](std::uint32_t tensor, std::uint64_t first, std::span<float> values) -> Result<void> {
    const castor_status status =
        host_.init_param_range(host_.self, model_.order[tensor], first, values.size(), values.data());
    return status == CASTOR_OK ? Result<void>() : failed_by_host(status);
  };
  std::uint64_t told_ns = timeline_.now_ns();
  return optimizer_->io().initialise(init, [&](double share) {
    if (timeline_.now_ns() - told_ns < kTellEveryNs) return;
    told_ns = timeline_.now_ns();
    const std::string text = "first values of the parameters: " + std::to_string(std::lround(100 * share)) + " %";
    host_.log(host_.self, CASTOR_LOG_INFO, text.c_str());
  });
}

/// Nobody may see the weights of the step before.
void GeminiStrategy::hide_pending() {
  for (std::uint32_t i = 0; i < layout_.chunks.size(); ++i)
    if (optimizer_->pending(i)) unbind(optimizer_->states().payload(i), kPending);
}

/// None where the chunks' part of the device is too small for what must be there at once; in the warm-up it grows to that.
Result<std::optional<std::uint32_t>> GeminiStrategy::keep(const void* data, std::uint64_t n_bytes) {
  if (!options_.offload_activations) return std::optional<std::uint32_t>();
  Budget& device = memory_->device_chunks();
  const std::uint64_t needed_bytes = working_bytes(largest_unit_.payload_bytes, n_bytes);
  if (n_steps_ == 0 && measures() && needed_bytes <= options_.device_budget_bytes)
    device.set_limit(std::max(device.limit_bytes(), needed_bytes));
  if (needed_bytes > device.limit_bytes()) return std::optional<std::uint32_t>();
  return activations_->keep(data, n_bytes);
}

Result<void*> GeminiStrategy::recall(std::uint32_t kept) {
  CASTOR_ASSIGN(const BufferView view, activations_->recall(kept));
  return static_cast<void*>(view.data);
}

Result<void> GeminiStrategy::forget(std::uint32_t kept) {
  activations_->forget(kept);
  return {};
}

Result<void> GeminiStrategy::enter(Moment moment) {
  end_computing();
  CASTOR_TRY(fill());
  CASTOR_TRY(optimizer_->update_early());
  for (const std::uint32_t chunk : used_.at(moment.id)) CASTOR_TRY(optimizer_->use(chunk));
  watch_.begin_unit(moment);
  sample();
  CASTOR_TRY(scheduler_->begin(moment, needs_.at(moment.id)));
  watch_.chunks_arrived();
  if (auto bound = bind(moment.id); !bound.ok()) return scheduler_->end(needs_[moment.id]), bound;
  const Phase phase = moment.kind == MomentKind::forward ? Phase::forward : Phase::backward;
  computing_ = {computed_->begin(), {Lane::compute, moment.id, 0, 0, 0, phase}};
  return {};
}

/// What the thread gave the stream since it entered a unit is all of that unit, and what follows it without units of its own.
void GeminiStrategy::end_computing() {
  if (auto ended = std::exchange(computing_, {})) computed_->end(std::move(ended->begun), ended->what);
}

/// Ends one use of a unit.
void GeminiStrategy::leave(std::uint32_t unit) { scheduler_->end(needs_[unit]); }

/// Ends what is still open: units without after_backward, and those whose forward or backward ended in the middle.
void GeminiStrategy::leave_all() {
  for (std::uint32_t unit = 0; unit < units_.size(); ++unit) {
    if (std::exchange(units_[unit].forward_open, false)) leave(unit);
    for (; units_[unit].n_backward_open > 0; --units_[unit].n_backward_open) leave(unit);
  }
}

/// Points the unit's parameters at their places in the device slots.
Result<void> GeminiStrategy::bind(std::uint32_t unit) {
  for (const std::uint32_t param : model_.units[unit]) {
    if (params_[param].bound) continue;
    const TensorPlace& place = layout_.tensors[place_of_[param]];
    const ChunkShape& shape = layout_.chunks[place.chunk];
    std::byte* slot = chunks_->chunk(optimizer_->states().payload(place.chunk)).at(Tier::device).buffer.data();
    const castor_status status = host_.bind(host_.self, param, slot + place.offset * size_bytes(shape.dtype));
    if (status != CASTOR_OK) return failed_by_host(status);
    params_[param].bound = true;
  }
  return {};
}

void GeminiStrategy::unbind(ChunkId id, const std::string& why) {
  for (std::uint32_t i = 0; i < layout_.chunks.size(); ++i) {
    if (optimizer_->states().payload(i) != id) continue;
    for (const std::uint32_t tensor : layout_.chunks[i].tensors) {
      const std::uint32_t param = model_.order[tensor];
      if (!params_[param].bound) continue;
      (void)host_.unbind(host_.self, param, why.c_str());
      params_[param].bound = false;
    }
  }
}

Result<void> GeminiStrategy::before_forward(std::uint32_t unit) {
  CASTOR_TRY(after_forward(unit));  // where its last forward ended in the middle
  CASTOR_TRY(enter({MomentKind::forward, unit}));
  units_[unit].forward_open = true;
  return {};
}

Result<void> GeminiStrategy::after_forward(std::uint32_t unit) {
  if (std::exchange(units_.at(unit).forward_open, false)) leave(unit);
  return {};
}

Result<void> GeminiStrategy::before_backward(std::uint32_t unit) {
  CASTOR_TRY(enter({MomentKind::backward, unit}));
  ++units_[unit].n_backward_open;
  return {};
}

Result<void> GeminiStrategy::after_backward(std::uint32_t unit) {
  if (units_.at(unit).n_backward_open == 0) return {};
  --units_[unit].n_backward_open;
  leave(unit);
  return {};
}

Result<void> GeminiStrategy::gradient(std::uint32_t param, DLManagedTensor* grad) {
  std::function<void()> give_back;
  if (grad->deleter != nullptr) give_back = [grad] { grad->deleter(grad); };
  if (param >= place_of_.size()) {
    if (give_back) give_back();
    return Error{ErrorKind::plugin, "gemini: a gradient came for parameter " + std::to_string(param) +
                                        ", the model has " + std::to_string(place_of_.size())};
  }
  const void* data = static_cast<const std::byte*>(grad->dl_tensor.data) + grad->dl_tensor.byte_offset;
  const std::uint32_t tensor = place_of_[param];
  return optimizer_->add_gradient(tensor, {data, std::move(give_back)});
}

Result<void> GeminiStrategy::end_of_backward() {
  end_computing();
  leave_all();
  watch_.begin_rest();
  sample();
  return optimizer_->update_early();
}

/// The parameters' groups become those of the tensors. Errors: usage, where the states are not those of the step's rule.
Result<StepOptions> GeminiStrategy::options_of(const castor_step_args& args) const {
  StepOptions options = step_options(args, static_cast<std::uint32_t>(place_of_.size()));
  if (const bool adam = keeps_exp_avg_sq(options.update); adam != options_.format.keeps_exp_avg_sq)
    return Error{ErrorKind::usage,
                 std::string("gemini: the step is one of ") + (adam ? "Adam or LAMB" : "SGD or LARS") +
                     ", the states are kept for another rule; set optimizer=" + (adam ? "adam" : "sgd")};
  const std::vector<std::uint32_t> of_param = options.group_of;
  for (std::uint32_t param = 0; param < of_param.size(); ++param) options.group_of[place_of_[param]] = of_param[param];
  return options;
}

Result<void> GeminiStrategy::announce_step(const castor_step_args& args) {
  CASTOR_ASSIGN(const StepOptions options, options_of(args));
  team_->limit_threads(thread_trial_.n_threads());
  return optimizer_->announce(options);
}

Result<castor_step_result> GeminiStrategy::step(const castor_step_args& args) {
  CASTOR_ASSIGN(const StepOptions options, options_of(args));
  // Whoever waits for each update needs most gradients at once; what backward still takes is no waiting, and no update.
  if (!options_.overlap_updates) CASTOR_TRY(compute_->record().wait());
  const std::uint64_t start_ns = timeline_.now_ns();
  end_computing();
  leave_all();
  watch_.begin_rest();
  auto stepped = optimizer_->step(options);
  team_->limit_threads(thread_trial_.all_threads());
  CASTOR_ASSIGN(const StepScale scale, std::move(stepped));
  watch_.end_step();
  sample();
  hide_pending();
  if (++n_steps_ == 1) {
    if (measures()) CASTOR_TRY(plan_again());
    if (options.needs_norm()) tell_speculation();
  }
  CASTOR_TRY(try_streams());
  try_threads();
  update_seconds_ += static_cast<double>(timeline_.now_ns() - start_ns) * 1e-9;
  timeline_.end_step();
  castor_step_result result{};
  result.struct_size = sizeof result;
  result.skipped = scale.skip ? 1 : 0;
  result.grad_norm = args.max_norm > 0 || args.loss_scale != 1 ? scale.grad_norm : -1;
  return result;
}

Result<void> GeminiStrategy::read_master(std::uint32_t param, float* out) {
  CASTOR_TRY(fill());
  return optimizer_->io().read_master(place_of_.at(param), out);
}

Result<void> GeminiStrategy::read_state(castor_param_state& state) {
  CASTOR_TRY(fill());
  StateValues states = states_of(state);
  CASTOR_TRY(optimizer_->io().read(place_of_.at(state.param), states));
  state.n_updates = states.n_updates;
  return {};
}

Result<void> GeminiStrategy::write_state(const castor_param_state& state) {
  CASTOR_TRY(fill());
  return optimizer_->io().write(place_of_.at(state.param), states_of(state));
}

/// Notes what the tiers hold now.
void GeminiStrategy::sample() {
  timeline_.sample({watch_.held_bytes(), memory_->host_budget().used_bytes(), memory_->nvme_budget().used_bytes()});
}

Result<castor_stats> GeminiStrategy::stats() {
  watch_.look();
  sample();
  castor_stats stats{};
  stats.struct_size = sizeof stats;
  const Budget& device = memory_->device_chunks();
  const Budget* budgets[] = {&device, &memory_->host_budget(), &memory_->nvme_budget()};
  for (std::size_t tier = 0; tier < kNTiers; ++tier) {
    stats.used_bytes[tier] = budgets[tier]->used_bytes();
    stats.peak_bytes[tier] = budgets[tier]->peak_bytes();
    stats.budget_bytes[tier] = budgets[tier]->limit_bytes();
  }
  stats.budget_bytes[index(Tier::device)] = options_.device_budget_bytes;
  if (memory_->on_gpu()) {
    stats.used_bytes[index(Tier::device)] = watch_.held_bytes();
    stats.peak_bytes[index(Tier::device)] = watch_.reserved_peak_bytes();
  }
  const LinkBytes& moved = chunks_->moved();
  stats.h2d_bytes = moved.h2d;
  stats.d2h_bytes = moved.d2h;
  stats.nvme_read_bytes = moved.nvme_read;
  stats.nvme_write_bytes = moved.nvme_write;
  stats.wait_seconds = mover_->wait_seconds();
  stats.update_seconds = update_seconds_;
  if (const auto bound = scheduler_->bound()) {
    stats.bound_seconds = bound->seconds;
    stats.bound_by = bound->by;
  }
  return stats;
}

Result<void> GeminiStrategy::write_trace(const std::filesystem::path& path) {
  end_computing();
  CASTOR_TRY(compute_->record().wait());
  computed_->settle();
  scheduler_->settle_times();
  return castor::write_trace(
      path, {model_, layout_, *chunks_, *optimizer_, needs_, timeline_, options_, *mover_, *scheduler_, update_seconds_, watch_});
}

}  // namespace castor

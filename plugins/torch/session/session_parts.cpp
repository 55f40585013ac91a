// SPDX-License-Identifier: Apache-2.0
#include "session_parts.h"

#include "../resident_values.h"

#include <castor/plugins/booster.h>
#include <castor/plugins/dl_dtype.h>
#include <castor/plugins/nearest_name.h>
#include <castor/plugins/step_args.h>
#include <castor/plugins/torch/errors.h>
#include <castor/plugins/torch/runtime.h>
#include <castor/training/optimizer_families.h>
#include <castor/training/plugin_folders.h>
#include <castor/training/run_settings.h>

#include <ATen/DLConvertor.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <utility>

namespace castor {

namespace {

/// Host memory for the values of a parameter in the order of its own, in which they cross: the master's, or of an opaque
/// one those of its dtype.
at::Tensor values_like(const castor_param_info& param) {
  const at::IntArrayRef sizes = sizes_of(param);
  const at::ScalarType dtype = is_opaque(param) ? at::toScalarType(param.dtype) : at::kFloat;
  return at::empty_strided(sizes, at::IntArrayRef(param.strides, sizes.size()), dtype);
}

Result<Plugin> plugin_of(const PluginByName& named) {
  if (named.loaded) return *named.loaded;
  return PluginLoader(torch_build_tag(), plugin_folders()).load(named.name);
}

}  // namespace

Result<void> Session::Parts::may_run_forward() const {
  if (options.values_may_change && order.has_all_gradients()) return {};
  return order.check(StepOrder::Call::forward);
}

/// A pass under no_sync is not the last of its step, and the number of its passes is not known. After the last one no
/// forward pass begins another.
std::optional<castor_micro_batch> Session::Parts::begun_micro_batch() {
  if (order.has_all_gradients() || std::exchange(told_micro_batch, true)) return {};
  auto batch = blank<castor_micro_batch>();
  batch.index = static_cast<std::uint32_t>(n_backwards);
  if (options.micro_batches == 0) {
    batch.flags = CASTOR_MICRO_UNKNOWN;
    return batch;
  }
  if (n_held > 0) {
    batch.flags = CASTOR_MICRO_NO_SYNC;
    return batch;
  }
  batch.count = static_cast<std::uint32_t>(std::max(n_backwards + 1, options.micro_batches));
  if (is_last_backward()) batch.flags = CASTOR_MICRO_LAST;
  return batch;
}

Result<void> Session::Parts::in_order(StepOrder::Call call) {
  CASTOR_TRY(adapter->end_broken_pass());
  return order.check(call);
}

Result<void> Session::Parts::none_lent(const char* call) const {
  if (n_lent == 0) return {};
  return Error{ErrorKind::usage, std::string(call) + " was called while weights are lent; leave castor.gathered first"};
}

Result<void> Session::Parts::may_run_backward() {
  CASTOR_TRY(order.check(call_of_backward()));
  CASTOR_TRY(none_lent("backward()"));
  return versions.check();
}

/// With a norm no update is made for good before step().
Result<void> Session::Parts::may_drop_step() const {
  if (!was_announced() || announced.max_norm > 0 || scaler) return {};
  return Error{ErrorKind::usage,
               "parameters may have been updated already in the last backward pass of the step; end it with step(); "
               "without micro_batches no update begins before step(), and a step can be "
               "dropped"};
}

Result<void> Session::Parts::announce() {
  if (!is_last_backward() || options.values_may_change) return {};
  if (options.before_announcing) CASTOR_TRY(options.before_announcing());
  const auto done = strategy->announce_step(announced = next_args());
  if (!done.ok()) order.failed();
  return done;
}

Result<void> Session::Parts::begin_backward() {
  if (!options.autograd_begins)
    return Error{ErrorKind::usage,
                 "a backward pass was begun without the session (loss.backward() or a gradient function); call "
                 "backward(loss) of the session, which also ends the pass"};
  CASTOR_TRY(may_run_backward());
  if (scaler && !std::exchange(loss_is_scaled, false))
    return Error{ErrorKind::usage,
                 "the loss was not scaled, which gradients in fp16 need; call optimizer.backward(loss)"};
  return announce();
}

void Session::Parts::end_backward(bool whole) {
  if (!whole) return order.failed();
  order.done(call_of_backward());
  end_micro_batch(n_backwards + 1);
}

castor_step_args Session::Parts::next_args() {
  castor_step_args args = values;
  args.lr = schedule->at(n_steps);
  args.loss_scale = scaler ? scaler->scale() : 1;
  groups->set(n_steps, args);
  return args;
}

Result<void> Session::Parts::set_values(castor_step_args of_optimizer) {
  of_optimizer.max_norm = options.max_norm, of_optimizer.max_value = options.max_value;
  LrScheduleOptions rates = options.schedule.value_or(LrScheduleOptions{});
  rates.lr = of_optimizer.lr;
  CASTOR_TRY(check_step_args(of_optimizer, 0));
  CASTOR_ASSIGN(LrSchedule made_schedule, LrSchedule::make(rates));
  CASTOR_ASSIGN(ParamGroups made, ParamGroups::make(options.groups, of_optimizer, rates, params));
  castor_step_args first = of_optimizer;
  made.set(0, first);
  CASTOR_TRY(check_step_args(first, static_cast<std::uint32_t>(params.size())));
  values = of_optimizer, schedule = std::move(made_schedule), groups = std::move(made);
  return {};
}

Result<void> Session::Parts::attach(const StrategyChoice& choice) {
  if (const auto* resident = std::get_if<Resident>(&choice)) return attach_resident(*resident);
  if (const auto* named = std::get_if<PluginByName>(&choice)) return attach_plugin(*named);
  CASTOR_ASSIGN(const PluginByName named, by_name(std::get<Gemini>(choice)));
  return attach_plugin(named);
}

Result<void> Session::Parts::attach_plugin(const PluginByName& named) {
  CASTOR_ASSIGN(const Plugin plugin, plugin_of(named));
  CASTOR_ASSIGN(const auto values_of_plugin, with_facts(named.options, *plugin.info, facts()));
  CASTOR_ASSIGN(const Booster booster, Booster::make(plugin, values_of_plugin));
  CASTOR_ASSIGN(strategy, booster.boost(adapter->host()));
  adapter->connect(strategy.get());
  return {};
}

Result<void> Session::Parts::attach_resident(const Resident& resident) {
  const StateFormat format = {.moments = resident.moments,
                              .rounding_seed = rounding_seed(options.seed),
                              .keeps_exp_avg_sq = keeps_exp_avg_sq(values.optimizer)};
  CASTOR_ASSIGN(strategy, make_resident_strategy(*adapter, format));
  return {};
}

Result<ParamId> Session::Parts::named(std::string_view name) const {
  CASTOR_ASSIGN(const ParamId id, known_as(name));
  CASTOR_TRY(adapter->check_memory(number(id)));
  return id;
}

Result<ParamId> Session::Parts::known_as(std::string_view name) const {
  if (const auto found = id_of.find(name); found != id_of.end()) return found->second;
  std::vector<std::string> names;
  for (const castor_param_info& param : params) names.emplace_back(param.name);
  return Error{ErrorKind::usage, "there is no parameter '" + std::string(name) + "' among the " +
                                     std::to_string(names.size()) + " of the model" + did_you_mean(name, names)};
}

Result<std::vector<std::uint32_t>> Session::Parts::known_as(const std::vector<std::string>& names) const {
  std::vector<std::uint32_t> ids;
  for (const std::string& name : names) {
    CASTOR_ASSIGN(const ParamId id, known_as(name));
    ids.push_back(number(id));
  }
  return ids;
}

/// Rounded from the master as a strategy does; an opaque parameter as it is.
Result<at::Tensor> Session::Parts::read_weight(ParamId id) {
  CASTOR_TRY(versions.check(number(id)));
  CASTOR_ASSIGN(const at::Tensor master, read_master(id));
  if (is_opaque(params[id])) return master;
  const at::ScalarType dtype = at::toScalarType(params[id].dtype);
  return rounded(master.const_data_ptr<float>(), master.numel(), dtype).view(master.sizes());
}

/// The state of a parameter, of which the arrays of `moments`, in the order of its memory, are given or taken.
Result<castor_param_state> Session::Parts::state_in(ParamId id, const Moments& moments) const {
  if (!is_trainable(params[id]))
    return Error{ErrorKind::usage, std::string("parameter ") + params[id].name + " is frozen, so it has no moments"};
  auto state = blank<castor_param_state>();
  state.param = number(id), state.n = params[id].numel, state.n_updates = moments.n_updates;
  state.exp_avg = moments.exp_avg.mutable_data_ptr<float>();
  if (moments.exp_avg_sq.defined()) state.exp_avg_sq = moments.exp_avg_sq.mutable_data_ptr<float>();
  return state;
}

Result<Moments> Session::Parts::read_moments(ParamId id) {
  Moments moments{values_like(params[id]), {}};
  if (keeps_exp_avg_sq(values.optimizer)) moments.exp_avg_sq = values_like(params[id]);
  CASTOR_ASSIGN(castor_param_state state, state_in(id, moments));
  CASTOR_TRY(strategy->values().read_state(state));
  moments.n_updates = state.n_updates;
  moments.exp_avg = moments.exp_avg.contiguous();
  if (moments.exp_avg_sq.defined()) moments.exp_avg_sq = moments.exp_avg_sq.contiguous();
  return moments;
}

Result<void> Session::Parts::write_moments(ParamId id, const Moments& given) {
  Moments moments{values_like(params[id]), {}, given.n_updates};
  const bool has_squares = keeps_exp_avg_sq(values.optimizer);
  if (has_squares) moments.exp_avg_sq = values_like(params[id]);
  const auto fits = [&](const at::Tensor& tensor) {
    return tensor.defined() && tensor.sizes() == sizes_of(params[id]);
  };
  if (!fits(given.exp_avg) || (has_squares && !fits(given.exp_avg_sq)))
    return Error{ErrorKind::usage, std::string("the moments for parameter ") + params[id].name +
                                       " are missing, or have other sizes than it has"};
  CASTOR_TRY(guard([&] {
    moments.exp_avg.copy_(given.exp_avg.detach());
    if (has_squares) moments.exp_avg_sq.copy_(given.exp_avg_sq.detach());
  }));
  const at::Tensor master = values_like(params[id]);  // is written with them
  CASTOR_ASSIGN(castor_param_state state, state_in(id, moments));
  castor_param_state kept = state;
  kept.exp_avg = kept.exp_avg_sq = nullptr;
  kept.master = state.master = master.mutable_data_ptr<float>();
  CASTOR_TRY(strategy->values().read_state(kept));
  return strategy->values().write_state(state);
}

Result<void> Session::Parts::may_access_gradient(StepOrder::Call call, ParamId id) {
  CASTOR_TRY(in_order(call));
  if (!is_trainable(params[id]))
    return Error{ErrorKind::usage, std::string("parameter ") + params[id].name + " is frozen, so it has no gradient"};
  if (!was_announced()) return {};
  return Error{ErrorKind::usage,
               "gradients of a step that was announced in its last backward pass cannot be accessed, because updates have "
               "begun; boost without micro_batches, which trainers of other packages state"};
}

Result<at::Tensor> Session::Parts::read_gradient(ParamId id) {
  CASTOR_TRY(may_access_gradient(StepOrder::Call::read_gradient, id));
  const at::Tensor values = values_like(params[id]);
  const auto read = strategy->values().read_gradient(
      {sizeof(castor_values), number(id), 0, CASTOR_ALL, CASTOR_FP32, values.mutable_data_ptr()});
  CASTOR_TRY(read);
  if (clipping) CASTOR_TRY(guard([&] { values.mul_(clipping->factor); }));
  return values.contiguous();
}

Result<void> Session::Parts::write_gradient(ParamId id, const at::Tensor& given) {
  CASTOR_TRY(may_access_gradient(StepOrder::Call::write_gradient, id));
  if (!given.defined() || given.sizes() != sizes_of(params[id]))
    return Error{ErrorKind::usage,
                 std::string("the gradient for parameter ") + params[id].name + " has other sizes than it has"};
  const at::Tensor values = values_like(params[id]);
  CASTOR_TRY(guard([&] { values.copy_(given.detach()); }));
  return strategy->values().write_gradient(
      {sizeof(castor_values), number(id), 0, CASTOR_ALL, CASTOR_FP32, values.mutable_data_ptr()});
}

Result<at::Tensor> Session::Parts::read_master(ParamId id) {
  const at::Tensor values = values_like(params[id]);
  CASTOR_TRY(strategy->values().read_masters(
      {sizeof(castor_values), number(id), 0, CASTOR_ALL, master_format(params[id]).form, values.mutable_data_ptr()}));
  return values.contiguous();
}

Result<void> Session::Parts::write_master(ParamId id, const at::Tensor& given) {
  const at::Tensor values = values_like(params[id]);
  CASTOR_TRY(guard([&] { values.copy_(given.detach()); }));
  auto state = blank<castor_param_state>();
  state.param = number(id);
  CASTOR_TRY(strategy->values().read_state(state));  // the counter
  state.n = params[id].numel;
  if (is_opaque(params[id]))
    state.opaque = values.mutable_data_ptr();
  else
    state.master = values.mutable_data_ptr<float>();
  return strategy->values().write_state(state);
}

Result<void> Session::Parts::load() {
  CASTOR_TRY(order.check(StepOrder::Call::resume));
  if (folders.restores() && order.state() != StepOrder::State::fresh)
    return Error{ErrorKind::usage,
                 folders.source_text() +
                     " has the commits of this session, and a commit is gone back to before the first "
                     "step alone; boost the model anew, or save in another folder to go back to"};
  auto run = folders.load(trained(), adapter->host(), *strategy);
  if (!run.ok() && run.error().kind != ErrorKind::usage) order.torn();  // a usage error comes before the first value
  if (!run.ok()) return run.error();
  if (scaler && run->scaler) {
    if (const auto restored = scaler->restore(*run->scaler); !restored.ok()) {
      order.torn();
      return Error{ErrorKind::usage,
                   folders.source_text() +
                       ": its loss scaler and this run's options do not go together: " + restored.error().message,
                   restored.error().option};
    }
  }
  n_steps = run->n_steps;
  if (const auto changed = settings_changed(folders.source_text(), run->settings, settings());
      !changed.empty() && options.log)
    options.log(CASTOR_LOG_WARN, changed);
  data_position = std::move(run->data_position);
  order.done(StepOrder::Call::resume);
  return {};
}

RunSettings Session::Parts::settings() const {
  RunSettings all = settings_of(values, schedule->options(), groups->summaries());
  all["seed"] = std::to_string(options.seed);
  all["micro_batches"] = std::to_string(options.micro_batches);
  all.insert(options.settings.begin(), options.settings.end());
  return all;
}

Result<SavedBytes> Session::Parts::save() {
  CASTOR_TRY(in_order(StepOrder::Call::save));
  CASTOR_TRY(versions.check());
  RunState run{n_steps, {}, data_position, settings()};
  if (scaler) run.scaler = scaler->state();
  return folders.save(trained(), adapter->host(), *strategy, run);
}

}  // namespace castor

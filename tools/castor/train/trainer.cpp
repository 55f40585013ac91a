// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string_view>

#include <castor/memory/clock.h>
#include <castor/models/model.h>
#include <castor/plugins/booster.h>
#include <castor/plugins/grad_scaler.h>
#include <castor/plugins/lr_schedule.h>
#include <castor/plugins/option_schema.h>
#include <castor/plugins/torch/errors.h>
#include <castor/plugins/torch/runtime.h>
#include <castor/plugins/torch/torch_adapter.h>

#include "cli/optimizers.h"
#include "cli/plugin_folders.h"
#include "cli/process.h"
#include "train/batches.h"
#include "train/checkpoint.h"
#include "train/committed_run.h"
#include "train/model_params.h"
#include "train/options/param_groups.h"
#include "train/weights_digest.h"

namespace castor::train {
namespace {

/// The GPU, with LibTorch's allocator limited to the budget: the model's own tensors count as much as the plugin's
/// memory.
Result<c10::Device> open_gpu(const TrainOptions& options) {
  CASTOR_TRY(cli::check_gpu());
  if (!torch_has_cuda())
    return Error{ErrorKind::failed,
                 "no GPU for LibTorch: its build " + torch_build_tag() +
                     " cannot use one; build Castor against a CUDA build of torch, or use --device cpu"};
  CASTOR_ASSIGN(const auto device, make_cuda_device(0));
  const std::uint64_t total_bytes = device->total_memory_bytes();
  CASTOR_TRY(configure_device_allocator(options.device_budget.value_or(total_bytes), total_bytes));
  return c10::Device(c10::kCUDA, 0);
}

/// LibTorch must be configured before its first operator.
Result<c10::Device> set_up_torch(const TrainOptions& options) {
  set_threads(options.threads);
  set_determinism(options.deterministic);
  return options.device == DeviceKind::cpu ? Result<c10::Device>(c10::Device(c10::kCPU)) : open_gpu(options);
}

Result<std::shared_ptr<Model>> build_model(const TrainOptions& options, c10::Device device) {
  const ModelOptions model{
      .dtype = options.precision, .device = device, .recompute = options.recompute, .seq = options.seq};
  return make_model(options.model, model);
}

/// The step arguments of all parameters outside groups.
castor_step_args step_args(const TrainOptions& options, double lr, double loss_scale) {
  castor_step_args args = {};
  args.struct_size = sizeof args;
  args.optimizer = options.optimizer;
  args.lr = lr;
  args.momentum = options.momentum.momentum, args.nesterov = options.momentum.nesterov ? 1 : 0;
  args.trust_coefficient = options.momentum.trust_coefficient;
  args.beta1 = 0.9, args.beta2 = 0.999, args.eps = 1e-8;
  args.weight_decay = options.weight_decay;
  args.max_norm = options.clip;
  args.max_value = options.clip_value;
  args.loss_scale = loss_scale;
  return args;
}

Counters counters_of(const castor_stats& stats) {
  Counters counters;
  for (std::size_t tier = 0; tier < kNTiers; ++tier) {
    counters.used_bytes[tier] = stats.used_bytes[tier];
    counters.peak_bytes[tier] = stats.peak_bytes[tier];
    if (stats.budget_bytes[tier] != UINT64_MAX) counters.budget_bytes[tier] = stats.budget_bytes[tier];
  }
  counters.moved_bytes = {stats.h2d_bytes, stats.d2h_bytes, stats.nvme_read_bytes, stats.nvme_write_bytes};
  counters.wait_seconds = stats.wait_seconds;
  counters.update_seconds = stats.update_seconds;
  if (stats.bound_by != nullptr) counters.bound = {stats.bound_seconds, stats.bound_by};
  return counters;
}

/// The plugin that `options` name, with its options, or nothing for `none`.
Result<std::optional<Booster>> choose_plugin(const TrainOptions& options) {
  if (options.plugin == "none") {
    CASTOR_TRY(plugin_options(options, "none", {"moments"}));
    if (!options.set.empty())
      return Error{ErrorKind::usage, "--set " + options.set.begin()->first + "=: plugin 'none' has no options"};
    if (!options.trace.empty())
      return Error{ErrorKind::usage, "--trace: plugin 'none' moves nothing and keeps no trace"};
    return std::optional<Booster>();
  }
  CASTOR_ASSIGN(const Plugin plugin, PluginLoader(torch_build_tag(), cli::plugin_folders()).load(options.plugin));
  std::vector<std::string> known;
  for (const castor_option* const option : option_schema(*plugin.info)) known.emplace_back(option->name);
  CASTOR_ASSIGN(const auto values, plugin_options(options, plugin.info->name, known));
  CASTOR_ASSIGN(Booster booster, Booster::make(plugin, values));
  return std::optional(std::move(booster));
}

double mean(const std::vector<at::Tensor>& losses) {
  double sum = 0;
  for (const at::Tensor& loss : losses) sum += loss.item<double>();
  return sum / static_cast<double>(losses.size());
}

bool share_a_folder(const std::vector<std::filesystem::path>& some, const std::vector<std::filesystem::path>& others) {
  return std::any_of(some.begin(), some.end(), [&others](const auto& folder) {
    return std::any_of(others.begin(), others.end(), [&folder](const auto& other) {
      return std::filesystem::weakly_canonical(folder) == std::filesystem::weakly_canonical(other);
    });
  });
}

/// Whether the folders hold a committed store (docs/storage.md).
bool holds_store(const std::vector<std::filesystem::path>& folders) {
  return std::any_of(folders.begin(), folders.end(),
                     [](const auto& folder) { return std::filesystem::exists(folder / "castor.manifest"); });
}

/// Errors: usage if the folders hold a run.
Result<void> check_unused(const std::vector<std::filesystem::path>& folders, const Checkpoint& checkpoint) {
  if (!checkpoint.step()) return {};
  return Error{ErrorKind::usage, folders_text(folders) + " holds a run of " + std::to_string(*checkpoint.step()) +
                                     " steps already; continue it with --resume, or name another folder"};
}

Result<void> check_unused(const std::vector<std::filesystem::path>& folders) {
  CASTOR_ASSIGN(const auto checkpoint, Checkpoint::open(folders));
  return check_unused(folders, *checkpoint);
}

void print_message(castor_log_level level, std::string_view message) {
  if (level != CASTOR_LOG_DEBUG) std::cerr << "castor: " << message << '\n';
}

/// One run: the model, the strategy that moves its memory, and the loop.
class Training {
 public:
  Training(const TrainOptions& options, const TrainObserver& observer, TrainRecord& record)
      : options_(options), observer_(observer), record_(record) {}
  ~Training();

  Result<void> prepare();
  Result<void> run();

 private:
  Result<void> make_schedule();
  Result<void> make_groups();
  castor_step_args args_of(std::int64_t index);
  Result<void> open_checkpoints();
  Result<void> resume();
  Result<RunState> load();
  Result<void> save(std::int64_t n_steps);
  Result<void> stop(std::int64_t n_steps);
  bool due(std::int64_t n_steps) const;
  Result<void> make_strategy(const std::optional<Booster>& booster);
  Result<void> step(std::int64_t index);
  Result<std::vector<at::Tensor>> micro_batches(std::int64_t index, const castor_step_args& args);
  double loss_scale() const { return scaler_ ? scaler_->scale() : 1; }
  Result<void> note_step(double loss, double seconds, const castor_step_args& args, const castor_step_result& result);
  Result<void> write_trace();

  const TrainOptions& options_;
  const TrainObserver& observer_;
  TrainRecord& record_;
  std::optional<LrSchedule> schedule_;
  std::optional<ParamGroups> groups_;
  std::optional<DynamicGradScaler> scaler_;  ///< fp16 only
  std::shared_ptr<Model> model_;
  std::unique_ptr<BatchSource> batches_;
  std::unique_ptr<TorchAdapter> adapter_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<Checkpoint> checkpoint_, resumed_;  ///< null if the strategy's own folders are the checkpoint
  const Trained trained_{options_.model, options_.optimizer};
  const bool saves_ = !options_.saved_in().empty();
  bool goes_on_ = false;       ///< the run is saved in the folders it continues from
  bool between_units_ = true;  ///< the user may stop it between any two units, not only between steps
};

Training::~Training() {
  if (adapter_) adapter_->connect(nullptr);
  strategy_.reset();
}

Result<void> Training::prepare() {
  CASTOR_TRY(make_schedule());
  CASTOR_TRY(open_checkpoints());
  CASTOR_ASSIGN(const c10::Device device, set_up_torch(options_));
  CASTOR_ASSIGN(model_, build_model(options_, device));
  CASTOR_ASSIGN(batches_, BatchSource::make(options_, *model_, device));
  CASTOR_ASSIGN(adapter_,
                TorchAdapter::make(model_, device, {.seed = options_.seed,
                                                    .interrupted = [this] {
                                                      return between_units_ && observer_.interrupted();
                                                    },
                                                    .log = print_message}));
  CASTOR_TRY(make_groups());
  CASTOR_ASSIGN(const auto booster, choose_plugin(options_));
  CASTOR_TRY(make_strategy(booster));
  CASTOR_TRY(resume());
  record_.tokens_per_step = model_->tokens_per_sample() * options_.samples_per_step();
  CASTOR_ASSIGN(record_.n_params, count_params(adapter_->host()));
  CASTOR_ASSIGN(const castor_stats stats, strategy_->stats());
  record_.warm = counters_of(stats);
  return options_.trace.empty() ? Result<void>()
                                : write_trace();  // a path that cannot be written fails now, not at the end
}

Result<void> Training::make_schedule() {
  CASTOR_ASSIGN(schedule_, LrSchedule::make(options_.lr_schedule));
  if (options_.precision != DType::f16) return {};
  CASTOR_ASSIGN(scaler_, DynamicGradScaler::make(options_.scaler));
  return {};
}

Result<void> Training::make_groups() {
  CASTOR_ASSIGN(const auto params, params_of(adapter_->host()));
  const castor_step_args others = step_args(options_, options_.lr_schedule.lr, 1);
  CASTOR_ASSIGN(groups_, ParamGroups::make(options_.groups, others, options_.lr_schedule, params));
  record_.groups = groups_->summaries();
  return {};
}

castor_step_args Training::args_of(std::int64_t index) {
  castor_step_args args = step_args(options_, schedule_->at(index), loss_scale());
  groups_->set(index, args);
  return args;
}

/// Runs before any large allocation. A run never overwrites a checkpoint that it does not continue.
Result<void> Training::open_checkpoints() {
  const auto& resume = options_.resume;
  for (const auto& folder : resume)
    if (!std::filesystem::is_directory(folder))
      return Error{ErrorKind::usage, "--resume " + folder.string() + ": there is no such folder"};
  const auto target = options_.saved_in();
  goes_on_ = share_a_folder(resume, target);
  if (!resume.empty() && !goes_on_) {
    CASTOR_ASSIGN(resumed_, Checkpoint::open(resume));
  }
  if (options_.commit_nvme) return goes_on_ || !holds_store(target) ? Result<void>() : check_unused(target);
  if (target.empty()) return {};
  CASTOR_ASSIGN(checkpoint_, Checkpoint::open(target));
  return goes_on_ ? Result<void>() : check_unused(target, *checkpoint_);
}

Result<void> Training::resume() {
  castor_param_state nothing = {sizeof(castor_param_state), 0, 0, 0, nullptr, nullptr, nullptr, 0};
  if (checkpoint_) CASTOR_TRY(strategy_->values().read_state(nothing));  // a strategy that cannot save fails now, not at the end
  if (options_.commit_nvme) CASTOR_TRY(strategy_->committed());
  if (options_.resume.empty()) return {};
  CASTOR_ASSIGN(const RunState run, load());
  if (run.n_steps >= options_.steps)
    return Error{ErrorKind::usage, "--resume " + folders_text(options_.resume) + " is a run of " +
                                       std::to_string(run.n_steps) + " steps, so --steps " +
                                       std::to_string(options_.steps) + " leaves nothing to do; raise it"};
  record_.first_step = run.n_steps;
  return scaler_ && run.scaler ? scaler_->restore(*run.scaler) : Result<void>();
}

Result<RunState> Training::load() {
  if (options_.commit_nvme && goes_on_)
    return restore_run(folders_text(options_.resume), trained_, adapter_->host(), *strategy_);
  return (resumed_ ? resumed_ : checkpoint_)->load(trained_, adapter_->host(), *strategy_);
}

Result<void> Training::save(std::int64_t n_steps) {
  RunState run{n_steps, {}};
  if (scaler_) run.scaler = scaler_->state();
  CASTOR_ASSIGN(const castor_stats before, strategy_->stats());
  CASTOR_ASSIGN(const SavedBytes saved, options_.commit_nvme ? commit_run(trained_, adapter_->host(), *strategy_, run)
                                                             : checkpoint_->save(trained_, adapter_->host(), *strategy_, run));
  CASTOR_ASSIGN(const castor_stats after, strategy_->stats());
  record_.saves.add(saved, counters_of(before), counters_of(after));
  observer_.after_save(n_steps, saved);
  return {};
}

bool Training::due(std::int64_t n_steps) const {
  const std::int64_t every = options_.checkpoint_every;
  return saves_ && (n_steps == options_.steps || (every > 0 && n_steps % every == 0));
}

/// The user has asked to stop: saves the completed steps if the run is saved.
Result<void> Training::stop(std::int64_t n_steps) {
  std::string message = "stopped by the user";
  if (saves_) {
    CASTOR_TRY(save(n_steps));
    message +=
        " after step " + std::to_string(n_steps) + "; continue with --resume " + folders_text(options_.saved_in());
  }
  return Error{ErrorKind::interrupted, message};
}

Result<void> Training::make_strategy(const std::optional<Booster>& booster) {
  if (booster) {
    CASTOR_ASSIGN(strategy_, booster->boost(adapter_->host()));
    adapter_->connect(strategy_.get());
    return {};
  }
  const StateFormat format = {.moments = options_.moments,
                              .rounding_seed = options_.rounding_seed(),
                              .keeps_exp_avg_sq = cli::keeps_exp_avg_sq(options_.optimizer)};
  CASTOR_ASSIGN(strategy_, make_resident_strategy(model_, *adapter_, format));
  return {};
}

Result<void> Training::run() {
  between_units_ = !saves_;
  for (std::int64_t i = record_.first_step; i < options_.steps; ++i) {
    Result<void> done = step(i);
    if (done.ok() && due(i + 1)) done = save(i + 1);
    if (done.ok()) continue;
    if (!options_.trace.empty())
      (void)write_trace().ok();  // the trace helps to explain the error, which matters more than a failure to write the
                                 // trace
    return done;
  }
  record_.peak_rss_bytes = cli::peak_rss_bytes();
  if (!options_.trace.empty()) CASTOR_TRY(write_trace());
  CASTOR_ASSIGN(record_.weights_digest, weights_digest(adapter_->host(), *strategy_));
  return {};
}

/// The schedule follows the loop: a step skipped for an overflow uses up its learning rate, as in torch's loops, where
/// scheduler.step() comes after scaler.step() whether or not that updated.
Result<void> Training::step(std::int64_t index) {
  if (observer_.interrupted()) return stop(index);
  const double start_s = steady_now_s();
  const castor_step_args args = args_of(index);  // the strategy gets the same arguments in announce_step and in step
  CASTOR_ASSIGN(const auto losses, micro_batches(index, args));
  CASTOR_ASSIGN(const castor_step_result result, strategy_->step(args));
  if (scaler_) scaler_->update(result.skipped != 0);
  const double loss = mean(losses);  // waits for the device, so only after the step is queued
  return note_step(loss, steady_now_s() - start_s, args, result);
}

/// Runs forward and backward of every micro-batch; returns the losses as tensors on the model's device.
Result<std::vector<at::Tensor>> Training::micro_batches(std::int64_t index, const castor_step_args& args) {
  const auto n = static_cast<double>(options_.accumulate);
  const double scale = args.loss_scale / n;
  std::vector<at::Tensor> losses;
  for (std::int64_t micro = 0; micro < options_.accumulate; ++micro) {
    CASTOR_ASSIGN(const Batch batch, batches_->next(index, micro));
    CASTOR_ASSIGN(const at::Tensor loss, guard([&] { return model_->loss(batch); }));
    if (micro + 1 == options_.accumulate) CASTOR_TRY(strategy_->announce_step(args));
    CASTOR_TRY(adapter_->backward(loss, scale));
    losses.push_back(loss.detach());
  }
  return losses;
}

Result<void> Training::note_step(double loss, double seconds, const castor_step_args& args,
                                 const castor_step_result& result) {
  record_.losses.push_back(loss);
  record_.lrs.push_back(args.lr);
  record_.step_s.push_back(seconds);
  if (!(result.grad_norm < 0)) record_.grad_norms.push_back(result.grad_norm);  // a nan counts as a norm
  record_.n_clipped += args.max_norm > 0 && !result.skipped && result.grad_norm > args.max_norm;
  record_.n_skipped += result.skipped != 0;
  CASTOR_ASSIGN(const castor_stats stats, strategy_->stats());
  record_.note(counters_of(stats));
  if (static_cast<std::int64_t>(record_.losses.size()) == n_left_out(options_.steps - record_.first_step))
    record_.warm = record_.last;
  observer_.after_step(record_);
  return {};
}

Result<void> Training::write_trace() { return strategy_->write_trace(options_.trace.c_str()); }

}  // namespace

Result<void> run_training(const TrainOptions& options, const TrainObserver& observer, TrainRecord& record) {
  Training training(options, observer, record);
  const Result<Result<void>> done = guard([&]() -> Result<void> {
    CASTOR_TRY(training.prepare());
    return training.run();
  });
  return done ? *done : Result<void>(done.error());
}

}  // namespace castor::train

// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <string_view>

#include <castor/memory/clock.h>
#include <castor/memory/host_cpus.h>
#include <castor/models/model.h>
#include <castor/plugins/torch/errors.h>
#include <castor/plugins/torch/runtime.h>
#include <castor/plugins/torch/session.h>

#include "cli/process.h"
#include "cli/words.h"
#include "train/batches.h"
#include "train/choices.h"

namespace castor::train {
namespace {

/// 0 leaves LibTorch's choice, which knows the CPUs that the process may run on but no CPU quota.
int torch_threads(int asked) {
  if (asked > 0 || !cpu_quota()) return asked;
  return std::min(at::get_num_threads(), static_cast<int>(usable_cpus()));
}

/// LibTorch must be configured before its first operator.
Result<c10::Device> set_up_torch(const TrainOptions& options) {
  set_threads(torch_threads(options.threads));
  set_determinism(options.deterministic);
  if (options.device == DeviceKind::cpu) return c10::Device(c10::kCPU);
  CASTOR_TRY(cli::check_gpu());
  return open_gpu(0, options.device_budget);
}

Result<std::shared_ptr<Model>> build_model(const TrainOptions& options, c10::Device device) {
  const ModelOptions model{
      .dtype = options.precision, .device = device, .recompute = options.recompute, .seq = options.seq};
  return make_model(options.model, model);
}

SessionOptions session_options(const TrainOptions& options) {
  SessionOptions session{.seed = options.seed,
                         .micro_batches = options.accumulate,
                         .groups = options.groups,
                         .schedule = options.lr_schedule,
                         .max_norm = options.clip,
                         .max_value = options.clip_value,
                         .name = options.model};
  if (options.precision == DType::f16) session.scaler = options.scaler;
  if (!options.commit_nvme) session.save_in = options.saved_in();
  session.resume_from = options.resume;
  session.log = [](castor_log_level level, std::string_view message) {
    if (level != CASTOR_LOG_DEBUG) std::cerr << "castor: " << cli::worded(message) << '\n';
  };
  return session;
}

double mean(const std::vector<at::Tensor>& losses) {
  double sum = 0;
  for (const at::Tensor& loss : losses) sum += loss.item<double>();
  return sum / static_cast<double>(losses.size());
}

/// One run: the model, its session, and the loop.
class Training {
 public:
  Training(const TrainOptions& options, const TrainObserver& observer, TrainRecord& record)
      : options_(options), observer_(observer), record_(record) {}

  Result<void> prepare();
  Result<void> run();

 private:
  Result<void> make_session();
  Result<void> save();
  Result<void> stop();
  bool due(std::int64_t n_steps) const;
  Result<void> step();
  Result<std::vector<at::Tensor>> micro_batches();
  Result<void> note_step(double loss, double seconds, const StepOutcome& outcome);
  Result<void> write_trace() { return options_.trace.empty() ? Result<void>() : session_->trace(options_.trace); }

  const TrainOptions& options_;
  const TrainObserver& observer_;
  TrainRecord& record_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<BatchSource> batches_;
  std::optional<Session> session_;
  const bool saves_ = !options_.saved_in().empty();
  bool between_units_ = true;  ///< the user may stop it between any two units, not only between steps
};

Result<void> Training::prepare() {
  if (options_.commit_nvme && options_.resume.empty()) CASTOR_TRY(check_unused(options_.nvme));
  CASTOR_ASSIGN(const c10::Device device, set_up_torch(options_));
  CASTOR_ASSIGN(model_, build_model(options_, device));
  CASTOR_ASSIGN(batches_, BatchSource::make(options_, *model_, device));
  CASTOR_TRY(make_session());
  record_.tokens_per_step = model_->tokens_per_sample() * options_.samples_per_step();
  record_.n_params = session_->n_params();
  record_.groups = session_->groups();
  record_.first_step = session_->n_steps();
  CASTOR_ASSIGN(record_.warm, session_->stats());
  return write_trace();  // a path that cannot be written fails now, not at the end
}

Result<void> Training::make_session() {
  SessionOptions session = session_options(options_);
  session.interrupted = [this] { return between_units_ && observer_.interrupted(); };
  CASTOR_ASSIGN(const StrategyChoice choice, strategy_of(options_, torch_build_tag()));
  CASTOR_ASSIGN(session_, boost(model_, choice, optimizer_of(options_), std::move(session)));
  if (session_->n_steps() < options_.steps) return {};
  return Error{ErrorKind::usage, "--resume " + folders_text(options_.resume) + " is a run of " +
                                     std::to_string(session_->n_steps()) + " steps, so --steps " +
                                     std::to_string(options_.steps) + " leaves nothing to do; raise it"};
}

Result<void> Training::save() {
  CASTOR_ASSIGN(const RunStats before, session_->stats());
  CASTOR_ASSIGN(const SavedBytes saved, session_->save());
  CASTOR_ASSIGN(const RunStats after, session_->stats());
  record_.saves.add(saved, before, after);
  observer_.after_save(session_->n_steps(), saved);
  return {};
}

bool Training::due(std::int64_t n_steps) const {
  const std::int64_t every = options_.checkpoint_every;
  return saves_ && (n_steps == options_.steps || (every > 0 && n_steps % every == 0));
}

/// The user has asked to stop: saves the completed steps if the run is saved.
Result<void> Training::stop() {
  std::string message = "stopped by the user";
  if (saves_ && session_->n_steps() > 0) {
    CASTOR_TRY(save());
    message += " after step " + std::to_string(session_->n_steps()) + "; continue with --resume " +
               folders_text(options_.saved_in());
  }
  return Error{ErrorKind::interrupted, message};
}

Result<void> Training::run() {
  between_units_ = !saves_;
  while (session_->n_steps() < options_.steps) {
    Result<void> done = step();
    if (done.ok() && due(session_->n_steps())) done = save();
    if (done.ok()) continue;
    (void)write_trace().ok();  // it helps to explain the error, which matters more than a failure to write it
    return done;
  }
  record_.peak_rss_bytes = cli::peak_rss_bytes();
  CASTOR_TRY(write_trace());
  CASTOR_ASSIGN(record_.weights_digest, session_->digest());
  return {};
}

Result<void> Training::step() {
  if (observer_.interrupted()) return stop();
  const double start_s = steady_now_s();
  CASTOR_ASSIGN(const auto losses, micro_batches());
  CASTOR_ASSIGN(const StepOutcome outcome, session_->step());
  const double loss = mean(losses);  // waits for the device, so only after the step is queued
  return note_step(loss, steady_now_s() - start_s, outcome);
}

/// Runs forward and backward of every micro-batch; returns the losses as tensors on the model's device.
Result<std::vector<at::Tensor>> Training::micro_batches() {
  std::vector<at::Tensor> losses;
  for (std::int64_t micro = 0; micro < options_.accumulate; ++micro) {
    CASTOR_ASSIGN(const Batch batch, batches_->next(session_->n_steps(), micro));
    CASTOR_ASSIGN(const at::Tensor loss, guard([&] { return model_->loss(batch); }));
    CASTOR_TRY(session_->backward(loss));
    losses.push_back(loss.detach());
  }
  return losses;
}

Result<void> Training::note_step(double loss, double seconds, const StepOutcome& outcome) {
  record_.losses.push_back(loss);
  record_.lrs.push_back(outcome.lr);
  record_.step_s.push_back(seconds);
  if (outcome.grad_norm) record_.grad_norms.push_back(*outcome.grad_norm);
  record_.n_clipped += options_.clip > 0 && !outcome.skipped && outcome.grad_norm > options_.clip;
  record_.n_skipped += outcome.skipped;
  CASTOR_ASSIGN(const RunStats stats, session_->stats());
  record_.note(stats);
  if (static_cast<std::int64_t>(record_.losses.size()) == n_left_out(options_.steps - record_.first_step))
    record_.warm = record_.last;
  observer_.after_step(record_);
  return {};
}

}  // namespace

Result<void> run_training(const TrainOptions& options, const TrainObserver& observer, TrainRecord& record) {
  Training training(options, observer, record);
  const Result<Result<void>> done = guard([&]() -> Result<void> {
    CASTOR_TRY(training.prepare());
    return training.run();
  });
  const Result<void> outcome = done ? *done : Result<void>(done.error());
  return outcome;
}

}  // namespace castor::train

// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string_view>
#include <system_error>

#include <castor/memory/clock.h>
#include <castor/memory/text.h>
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

/// `text (1600 bytes)`; a file that was moved is the same.
std::string data_text(const std::filesystem::path& data) {
  std::error_code refused;
  const auto n_bytes = std::filesystem::file_size(data, refused);
  return data.empty() ? "random input" : data.filename().string() + " (" + std::to_string(n_bytes) + " bytes)";
}

RunSettings settings_of(const TrainOptions& options) {
  return {{"batch", std::to_string(options.batch)},
          {"seq", std::to_string(options.seq)},
          {"data", data_text(options.data)},
          {"precision", name(options.precision)},
          {"moments", name(options.moments)}};
}

SessionOptions session_options(const TrainOptions& options, const TrainObserver& observer) {
  SessionOptions session{.seed = options.seed,
                         .micro_batches = options.accumulate,
                         .groups = options.groups,
                         .schedule = options.lr_schedule,
                         .max_norm = options.clip,
                         .max_value = options.clip_value,
                         .name = spelled_out(options.model).value(),
                         .settings = settings_of(options)};
  if (options.precision == DType::f16) session.scaler = options.scaler;
  if (!options.commit_nvme) session.save_in = options.saved_in();
  session.resume_from = options.resume;
  session.log = [&observer](castor_log_level level, std::string_view message) {
    if (level == CASTOR_LOG_DEBUG) return;
    const std::string sentence = cli::worded(message);
    level == CASTOR_LOG_WARN ? observer.warn(sentence) : observer.tell(sentence);
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
  Result<void> save_if_finite();
  Result<void> stop();
  bool due(std::int64_t n_steps) const;
  Result<void> step();
  Result<std::vector<at::Tensor>> micro_batches();
  Result<void> note_step(double loss, double seconds, const StepOutcome& outcome);
  Result<void> check_finite(double loss, const StepOutcome& outcome);
  void note_overflow();
  bool scales_loss() const { return options_.precision == DType::f16; }
  Result<void> write_trace() { return options_.trace.empty() ? Result<void>() : session_->trace(options_.trace); }

  const TrainOptions& options_;
  const TrainObserver& observer_;
  TrainRecord& record_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<BatchSource> batches_;
  std::optional<Session> session_;
  const bool saves_ = !options_.saved_in().empty();
  std::int64_t n_at_least_scale_ = 0;  ///< steps that overflowed at the least loss scale
  bool said_not_finite_ = false;
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
  return {};
}

Result<void> Training::make_session() {
  SessionOptions session = session_options(options_, observer_);
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

Result<void> Training::save_if_finite() {
  Result<void> saved = save();
  if (saved.ok() || options_.stops_on_nan) return saved;
  CASTOR_ASSIGN(const auto wild, session_->not_finite());
  if (!wild) return saved;
  observer_.warn("the state after step " + std::to_string(session_->n_steps()) + " is not saved: " + *wild +
                 " holds inf or nan");
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
    CASTOR_TRY(save_if_finite());
    message += " after step " + std::to_string(session_->n_steps()) + "; continue with --resume " +
               folders_text(options_.saved_in());
  }
  return Error{ErrorKind::interrupted, message};
}

Result<void> Training::run() {
  between_units_ = !saves_;
  while (session_->n_steps() < options_.steps) {
    Result<void> done = step();
    if (done.ok() && due(session_->n_steps())) done = save_if_finite();
    if (done.ok()) continue;
    (void)write_trace().ok();  // it helps to explain the error, which matters more than a failure to write it
    return done;
  }
  record_.peak_rss_bytes = cli::peak_rss_bytes();
  CASTOR_TRY(write_trace());
  if (record_.n_skipped == record_.losses.size() && n_at_least_scale_ > 0)
    return Error{ErrorKind::failed, "not one of the " + std::to_string(record_.losses.size()) +
                                        " steps was taken, because the gradients of each held inf or nan; lower "
                                        "--min-scale and --initial-scale, or use --precision bf16"};
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
  if (outcome.skipped) note_overflow();
  CASTOR_ASSIGN(const RunStats stats, session_->stats());
  record_.note(stats);
  if (static_cast<std::int64_t>(record_.losses.size()) == n_left_out(options_.steps - record_.first_step))
    record_.warm = record_.last;
  observer_.after_step(record_);
  return check_finite(loss, outcome);
}

/// Under a loss scale a skipped step has a norm that is not finite and changes nothing, so it is no sign of a state that
/// has gone wrong.
Result<void> Training::check_finite(double loss, const StepOutcome& outcome) {
  const bool is_excused = outcome.skipped && scales_loss();
  const bool norm_is_wild = !is_excused && outcome.grad_norm && !std::isfinite(*outcome.grad_norm);
  if ((std::isfinite(loss) && !norm_is_wild) || said_not_finite_) return {};
  const std::string said = "step " + std::to_string(session_->n_steps()) + ": " +
                           (std::isfinite(loss) ? "the norm of the gradients" : "the loss") + " is " +
                           shortest(std::isfinite(loss) ? *outcome.grad_norm : loss);
  if (options_.stops_on_nan)
    return Error{ErrorKind::failed, said + (saves_ ? "; the last state that was saved stays" : "") +
                                        "; lower --lr or use --clip; --on-nan continue goes on regardless"};
  said_not_finite_ = true;
  observer_.warn(said + "; the run goes on");
  return {};
}

/// Says it at the first overflow at the least scale, the tenth, the hundredth and so on.
void Training::note_overflow() {
  if (!scales_loss() || session_->loss_scale() > options_.scaler.min_scale) return;
  ++n_at_least_scale_;
  std::int64_t rank = n_at_least_scale_;
  while (rank % 10 == 0) rank /= 10;
  if (rank == 1)
    observer_.warn("step " + std::to_string(session_->n_steps()) +
                   ": the gradients overflow at the least loss scale, " + shortest(options_.scaler.min_scale) +
                   ", for the " + std::to_string(n_at_least_scale_) + (n_at_least_scale_ == 1 ? "st" : "th") +
                   " time; lower --min-scale or --lr");
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

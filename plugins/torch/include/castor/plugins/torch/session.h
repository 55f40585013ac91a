// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/dlpack.h>  // before abi.h, so that its include guard decides for both

#include <castor/plugins/grad_scaler.h>
#include <castor/plugins/lr_schedule.h>
#include <castor/plugins/torch/adapter_options.h>
#include <castor/plugins/torch/model_parts.h>
#include <castor/plugins/torch/unit_border.h>
#include <castor/training/byte_literals.h>
#include <castor/training/optimizer.h>
#include <castor/training/param_groups.h>
#include <castor/training/run_state.h>
#include <castor/training/run_stats.h>
#include <castor/training/strategy_choice.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace castor {

/// The settings of a training beside its placement and its optimizer.
struct SessionOptions {
  std::uint64_t seed = 0;  ///< of initial values, and of roundings at random
  /// Backward passes per step, whose gradients are averaged. The step is announced to the strategy before the last of
  /// them, so that it can update parameters during backward.
  std::int64_t micro_batches = 1;
  /// Backward passes are begun by autograd itself (loss.backward() in Python), under a plugin. Losses are not divided then,
  /// the program scales them (scale_next_loss), and micro_batches may be 0: not known, so that no update begins before
  /// step().
  bool autograd_begins = false;
  /// The values of the step may change until step(): nothing is announced, and no update begins before it. What messages
  /// call "without micro_batches", as Python has it.
  bool values_may_change = false;
  /// Called before a step is announced, when its last backward pass begins: set_optimizer changes its values here. An error
  /// refuses the pass. Threads: that of the pass.
  std::function<Result<void>()> before_announcing;
  std::vector<ParamGroup> groups;             ///< a parameter belongs to the first that selects it
  std::optional<LrScheduleOptions> schedule;  ///< from the optimizer's lr, in place of its own; none = constant
  std::optional<GradScalerOptions> scaler;    ///< of the loss; a model with fp16 parameters has one in any case
  double max_norm = 0;                        ///< global norm to clip gradients to; 0 = off
  double max_value = 0;                       ///< limit of each element of the gradients; 0 = off
  /// The model as messages and checkpoints call it; a checkpoint of another name is refused.
  std::string name = "the model";
  /// Further settings of the program (batch size, data) that a run should be continued with. They are saved with it,
  /// beside seed, micro-batches, optimizer, groups and schedule; where a run is resumed with others, one warning to
  /// `log` names old and new value of each.
  RunSettings settings;
  std::vector<std::filesystem::path> save_in;      ///< folders of save(); opened before the model gets memory
  std::vector<std::filesystem::path> resume_from;  ///< all folders of the checkpoint to continue from
  /// Called at every unit, from threads of the strategy too; true, or an exception, ends the call with kind interrupted.
  std::function<bool()> interrupted;
  std::function<void(const ErrorException&)> rethrow;  ///< AdapterOptions::rethrow; none = ErrorException
  std::string grad_message;  ///< AdapterOptions::grad_message; empty = parameter.grad() is undefined
  ModuleFilter is_unit;      ///< chooses the units of the model (AdapterOptions); none: every castor::Unit
  std::function<void(castor_log_level, std::string_view)> log;  ///< messages of the plugin; none = dropped
};

/// The outcome of a step.
struct StepOutcome {
  bool skipped = false;             ///< gradients held inf or nan, and nothing was updated
  std::optional<double> grad_norm;  ///< of the unscaled gradients before clipping, where it was taken
  double lr = 0;                    ///< of the parameters outside groups
};

/// The state of a parameter under its optimizer, beside the master: fp32 on the host, with the parameter's sizes.
struct Moments {
  at::Tensor exp_avg;     ///< of SGD the momentum
  at::Tensor exp_avg_sq;  ///< undefined where the rule has none
  std::uint64_t n_updates = 0;
};

/// A model in training: its adapter, the plugin's strategy, its optimizer and the state of the run. Ends in the right
/// order, and gives the parameters' memory back.
///
/// Order of calls: for each step one or more backward() and step(), resume() and writes between steps; another order is
/// refused with a sentence (StepOrder). Until a backward pass that micro_batches makes the last of its step the run can
/// be saved and values be read, which are those of the last step; later in a step all of that is refused (usage). What
/// is no value is saved as it is then: data_position, the values of the groups. A forward pass between the last
/// backward pass of a step and step() is refused too, because parameters may have been updated by then, unless the
/// session has values_may_change. A step may have fewer backward passes than micro_batches; their gradients are divided
/// by micro_batches all the same. A graph is differentiated in the step in which it was built: later it would read new
/// weights, and after the session none.
/// A session that was moved from can be assigned and destroyed, no more. Errors of the model's forward pass are exceptions; guard() (errors.h) makes them results.
/// Threads: one at a time; calls of another one within a call or a backward pass are refused. Sessions of different
/// models share nothing.
class Session {
 public:
  /// Keeps backward passes from being the last of their step as long as it lives, for steps of any number of passes:
  /// those under it, and one more after it.
  class [[nodiscard]] NoSync {
   public:
    NoSync(NoSync&& other) noexcept : n_held_(std::exchange(other.n_held_, nullptr)) {}
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync();

   private:
    friend class Session;
    explicit NoSync(std::int64_t& n_held) : n_held_(&n_held) { ++n_held; }
    std::int64_t* n_held_;
  };

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// Runs backward from `loss`, scaled by loss_scale() and divided by micro_batches. Errors: those of
  /// TorchAdapter::backward; then zero_grad drops the step.
  Result<void> backward(const at::Tensor& loss);
  /// Updates the parameters, and lets schedule and scaler go on. Errors: usage without gradients; the strategy's.
  Result<StepOutcome> step();
  /// True from the first backward pass of a step, whole or not, to step() or zero_grad().
  Result<bool> step_under_way();
  /// Drops the step under way after an error. Errors: as discard_gradients of a strategy.
  Result<void> zero_grad();
  /// Must not outlive the session.
  NoSync no_sync();
  /// `module.forward(args…)` of a module that SessionOptions::is_unit chose; a castor::Unit needs no such call. Throws
  /// ErrorException with the strategy's failure, or where the module is no unit.
  template <typename M, typename... Args>
  auto run(M& module, Args&&... args) {
    return border_of(module).run(std::tie(args...),
                                 [&](const auto&...) { return module.forward(std::forward<Args>(args)...); });
  }
  /// The border of a unit of a model that was given as parts, into which its forward passes belong. Requires: there is
  /// such a unit. Valid as long as the session.
  UnitBorder& unit(std::size_t number) const;

  /// Saves the run in the folders of SessionOptions::save_in, or by a commit in the folders of the NVMe tier where
  /// their durability is commit. Errors: usage where there are neither; failed where a state holds inf or nan; io. Then
  /// the last checkpoint stays valid.
  Result<SavedBytes> save();
  /// Saves a checkpoint in `folder`, which is made if missing and closed afterwards; commits_in(folder): by a commit.
  /// Errors: usage if it holds a run that this one does not continue; as above.
  Result<SavedBytes> save(const std::filesystem::path& folder);
  /// True for a folder of the NVMe tier where its durability is commit.
  bool commits_in(const std::filesystem::path& folder) const;
  /// Continues the run of the checkpoint in `folders` (all of them), of whatever placement, or that of a commit,
  /// which has to be before the first step. Errors: usage, where there is no checkpoint of this model; io.
  Result<void> resume(const std::vector<std::filesystem::path>& folders);

  /// The norm of the gradients so far in this step. Errors: usage without gradients, and once the step was announced;
  /// those of measure_norm of a strategy.
  Result<double> grad_norm();
  /// The same, and step() clips to `max_norm`, once (0: not at all). Until then read_gradient gives clipped values, and
  /// no other gradients are taken. Errors: as above; usage where it was called in this step already.
  Result<double> clip_grad_norm(double max_norm);

  /// Replaces the values of the optimizer, the groups' defaults included, from the next step on. Errors: usage for
  /// another rule, values out of range, and once a step's last backward pass was made.
  Result<void> set_optimizer(const Optimizer& optimizer);
  /// As above, and replaces the groups.
  Result<void> set_optimizer(const Optimizer& optimizer, std::vector<ParamGroup> groups);
  /// Where the data continues, saved with the run: any bytes that the program understands.
  void set_data_position(std::string position);
  const std::string& data_position() const;

  std::int64_t n_steps() const;  ///< completed, those before resume included
  double loss_scale() const;     ///< of the next backward pass
  /// The program multiplies the next loss that autograd differentiates by the scale that this returns.
  double scale_next_loss();
  const std::vector<GroupSummary>& groups() const;
  std::uint64_t n_params() const;  ///< elements, a tied parameter once
  bool saves() const;              ///< save() has folders

  Result<RunStats> stats();
  /// Writes the events so far as a trace file (docs/trace.md). Errors: usage where the strategy keeps none.
  Result<void> trace(const std::filesystem::path& file);
  /// See weights_digest.
  Result<std::string> digest();
  /// The first state that holds inf or nan, as `exp_avg of layers.0.weight`; nothing where all are finite. Reads all
  /// states. Errors: those of the strategy.
  Result<std::optional<std::string>> not_finite();
  /// The fp32 master of a parameter, or the values of an opaque one in their dtype: contiguous, on the host. Errors:
  /// usage for an unknown name, with the nearest one.
  Result<at::Tensor> read_master(std::string_view name);
  /// Errors: usage for an unknown name, and for a parameter that is not trained; those of the strategy.
  Result<Moments> read_moments(std::string_view name);
  /// Replaces them. Errors: as above; usage within a step, and for other sizes.
  Result<void> write_moments(std::string_view name, const Moments& moments);
  /// The gradient of a parameter so far in this step, in fp32: contiguous, on the host. Errors: usage outside a step, where
  /// the step was announced, where the parameter has none, and for an unknown name; those of the strategy.
  Result<at::Tensor> read_gradient(std::string_view name);
  /// Replaces it, by values of the parameter's sizes. Errors: as above; usage for other sizes.
  Result<void> write_gradient(std::string_view name, const at::Tensor& values);
  /// Gives parameters memory outside of units until release of the same ones, as castor.gathered() does in Python. With
  /// `write` what the program writes to them meanwhile becomes their values; what it does not write keeps its master.
  /// Errors: usage for unknown names, and to write within a step; does_not_fit.
  Result<void> acquire(const std::vector<std::string>& names, bool write);
  Result<void> release(const std::vector<std::string>& names, bool write);
  /// The weight of a parameter as the model computes with it, in its dtype: contiguous, on the host. Errors: those of
  /// read_master.
  Result<at::Tensor> read_weight(std::string_view name);
  /// The weights of all parameters by name, as the model computes with them: contiguous, in their dtypes, on the host and
  /// outside every budget. After the session `parameter.set_data(weight)` gives the model memory of its own again.
  /// Errors: those of read_master.
  Result<NamedTensors> state_dict();
  /// Makes values of the parameters' sizes, in any dtype, the masters of those that are named; moments and counters stay.
  /// Errors: usage within a step, for an unknown name, a name given twice and another size, and then nothing has changed;
  /// the strategy's, and then part of the values are new.
  Result<void> load(const NamedTensors& weights);

  struct Parts;  ///< of the implementation

 private:
  friend Result<Session> boost(std::shared_ptr<torch::nn::Module>, const StrategyChoice&, const Optimizer&,
                               SessionOptions);
  friend Result<Session> boost(const ModelParts&, const StrategyChoice&, const Optimizer&, SessionOptions);
  explicit Session(std::unique_ptr<Parts> parts);
  UnitBorder& border_of(const torch::nn::Module& module) const;
  std::unique_ptr<Parts> parts_;
};

/// Hands `model` to a strategy: afterwards every parameter is placed and initialised, or continues from
/// SessionOptions::resume_from. All parameters must be declared by units (unit.h) and on one device. On a GPU call
/// open_gpu before the model is built. Errors: usage, plugin, io before any parameter gets memory; does_not_fit.
Result<Session> boost(std::shared_ptr<torch::nn::Module> model, const StrategyChoice& choice,
                      const Optimizer& optimizer, SessionOptions options = {});

/// As above, for a model as parts, which are on one device. SessionOptions::is_unit is not asked.
Result<Session> boost(const ModelParts& model, const StrategyChoice& choice, const Optimizer& optimizer,
                      SessionOptions options = {});

/// Makes the GPU ready before its first use: LibTorch's allocator is limited to `device_budget` bytes (none: no limit),
/// because the model's own tensors count as much as the strategy's memory. The GPU becomes the current one of the
/// calling thread, which is the one that trains. Errors: failed where there is no GPU, or LibTorch cannot use one.
Result<c10::Device> open_gpu(int ordinal = 0, std::optional<std::uint64_t> device_budget = {});

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/session.h>
#include <castor/plugins/torch/torch_adapter.h>
#include <castor/training/model_params.h>
#include <castor/training/run_folders.h>
#include <castor/training/step_order.h>

#include "lent_for_writing.h"
#include "training_facts.h"
#include "weight_versions.h"

#include <string_view>
#include <unordered_map>

namespace castor {

inline at::IntArrayRef sizes_of(const castor_param_info& param) {
  return {param.shape, static_cast<std::size_t>(param.ndim)};
}

/// Of the gradients of one step.
struct Clipping {
  double max_norm = 0;
  double factor = 1;  ///< of each gradient
};

/// The state of a session. Members end in the reverse order: the strategy before the adapter.
struct Session::Parts final : PassRules {
  ~Parts() override {
    if (adapter) adapter->connect(nullptr);
  }

  /// True where the next backward pass is the last of its step.
  bool is_last_backward() const {
    return options.micro_batches > 0 && n_held == 0 && n_backwards + 1 >= options.micro_batches;
  }
  bool was_announced() const { return order.state() == StepOrder::State::ended && !options.values_may_change; }
  /// Refuses a pass that would read parameters that may have been updated already.
  Result<void> may_run_forward() const override;
  std::optional<castor_micro_batch> begun_micro_batch() override;
  /// Errors: usage, where `call` is not in order; those of a backward pass that has broken off.
  Result<void> in_order(StepOrder::Call call);
  /// Refuses `call` while weights are lent.
  Result<void> none_lent(const char* call) const;
  /// Errors: usage, where no backward pass is in order, or a weight was written in place.
  Result<void> may_run_backward();
  /// Refuses to drop a step of which parameters may have been updated already, and which step() can end.
  Result<void> may_drop_step() const;
  /// Announces the step where its last backward pass begins. Errors: the strategy's, which end the step.
  Result<void> announce();
  Result<void> begin_backward() override;
  void end_backward(bool whole) override;
  /// The next forward pass of training begins a micro-batch.
  void end_micro_batch(std::int64_t n_backwards_of_step) {
    n_backwards = n_backwards_of_step, told_micro_batch = false;
  }
  /// The arguments of the step after `n_steps`, whose groups are valid until the next call.
  castor_step_args next_args();
  /// Takes the values of the optimizer, with their schedule and groups. Errors: usage, and then nothing has changed.
  Result<void> set_values(castor_step_args of_optimizer);
  Result<void> attach(const StrategyChoice& choice);
  /// Errors: usage, for a name that there is not, with the nearest one.
  Result<ParamId> known_as(std::string_view name) const;
  Result<std::vector<std::uint32_t>> known_as(const std::vector<std::string>& names) const;
  /// The same, where the parameter still has the session's memory. Errors: as above, and usage.
  Result<ParamId> named(std::string_view name) const;
  Result<at::Tensor> read_weight(ParamId id);
  Result<Moments> read_moments(ParamId id);
  Result<void> write_moments(ParamId id, const Moments& moments);
  Result<at::Tensor> read_gradient(ParamId id);
  Result<void> write_gradient(ParamId id, const at::Tensor& values);
  Result<at::Tensor> read_master(ParamId id);
  Result<void> write_master(ParamId id, const at::Tensor& values);
  /// All that a run should be continued with.
  RunSettings settings() const;
  Result<void> load();
  Result<SavedBytes> save();

  SessionOptions options;
  castor_step_args values = {};  ///< of the optimizer and the clipping
  std::optional<LrSchedule> schedule;
  std::optional<ParamGroups> groups;
  std::optional<DynamicGradScaler> scaler;
  RunFolders folders;
  StepOrder order;
  bool loss_is_scaled = false;       ///< of the next backward pass that autograd begins
  std::optional<Clipping> clipping;  ///< of the step under way, in place of max_norm
  castor_step_args announced = {};   ///< of the step whose last backward pass was made
  std::int64_t n_steps = 0, n_backwards = 0, n_held = 0;
  std::int64_t n_lent = 0;        ///< acquire() without its release()
  bool told_micro_batch = false;  ///< the strategy knows of the micro-batch under way
  std::string data_position;
  std::unique_ptr<TorchAdapter> adapter;
  ModelParams params;
  std::unordered_map<std::string_view, ParamId> id_of;  ///< by the names in params
  WeightVersions versions;
  LentForWriting lent_for_writing;
  std::unique_ptr<Strategy> strategy;

 private:
  StepOrder::Call call_of_backward() const {
    return is_last_backward() ? StepOrder::Call::last_backward : StepOrder::Call::backward;
  }
  Result<void> may_access_gradient(StepOrder::Call call, ParamId id);
  Result<castor_param_state> state_in(ParamId id, const Moments& moments) const;
  Result<void> attach_plugin(const PluginByName& named);
  Result<void> attach_resident(const Resident& resident);
  Trained trained() const { return {options.name, values.optimizer}; }
  TrainingFacts facts() const { return training_facts(values, options); }
};

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <castor/engine/recorded_step.h>
#include <castor/plugins/model_host.h>
#include <castor/plugins/strategy.h>

namespace castor {

/// A model that repeats a recorded step and computes nothing. By default it is on the host, its parameters begin with
/// one small value, and its gradients have no values.
///
/// Threads: as ModelHost.
class RecordedModel : public ModelHost {
 public:
  /// `step` is borrowed.
  explicit RecordedModel(const RecordedStep& step) : step_(step) {}

  std::uint32_t n_units() override { return static_cast<std::uint32_t>(step_.units.size()); }
  std::uint32_t n_params() override { return static_cast<std::uint32_t>(step_.params.size()); }
  Result<castor_unit_info> unit_info(std::uint32_t unit) override;
  Result<castor_param_info> param_info(std::uint32_t param) override;
  Result<void> first_values(const castor_values& values) override;
  DLDevice device() override { return {kDLCPU, 0}; }
  Result<void> bind(std::uint32_t, void*) override { return {}; }
  Result<void> unbind(std::uint32_t, const char*) override { return {}; }

  /// Forward, backward and the optimizer's step. Errors: those of `strategy`.
  Result<void> run(Strategy& strategy, const castor_step_args& args);

 protected:
  /// The gradient of `param` for the strategy, which frees it.
  virtual DLManagedTensor* gradient(std::uint32_t param);
  /// Called after each call: the model works until the next one.
  virtual void work(const RecordedCall& call) { static_cast<void>(call); }
  /// Called when the strategy has not taken an activation of `n_bytes`, and when it is needed no more.
  virtual void keep_own(std::uint64_t n_bytes) { static_cast<void>(n_bytes); }
  virtual void forget_own(std::uint64_t n_bytes) { static_cast<void>(n_bytes); }

  /// A gradient whose values lie at `data`; `deleter` gets it with `owner` as its manager_ctx.
  DLManagedTensor* gradient_at(std::uint32_t param, void* data, void* owner, void (*deleter)(DLManagedTensor*)) const;

 private:
  struct Kept {
    std::uint32_t by_strategy = 0;  ///< 0: the model kept it
    std::uint64_t n_bytes = 0;
  };

  Result<void> play(const StepCall& call, Strategy& strategy, const castor_step_args& args);
  Result<void> keep(const StepCall& call, Strategy& strategy);
  Result<void> forget(const StepCall& call, Strategy& strategy);

  const RecordedStep& step_;
  std::vector<Kept> kept_;  ///< by number
};

}  // namespace castor

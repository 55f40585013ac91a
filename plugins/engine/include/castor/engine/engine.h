// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <castor/engine/engine_options.h>
#include <castor/engine/machine.h>
#include <castor/optimizer/step_options.h>
#include <castor/plugins/model_host.h>
#include <castor/plugins/strategy_parts.h>

namespace castor {

struct EngineRooms;
class EngineActivations;
class EngineCommits;
class LentWeights;
class ModelValues;
class Placer;
class SpeculationRoom;
class Tuner;
class UnitPasses;

/// The engine of the plugins: parameters, gradients and optimizer states in chunks over three tiers.
///
/// Around each use of a unit its payload chunks are on the device and its parameters bound to them; in between, the
/// mover keeps as many chunks there as the budgets allow. On a GPU the first step that updates is the warm-up: only the
/// working set is on the device while the peak of non-model data is measured. Then the placement is made again with the
/// room that is left, and once the times of a step are known, shares of streamed states and numbers of update threads
/// are tried (Tuner).
///
/// Threads: one call at a time, from the training thread or from autograd's while that one waits.
class Engine final : public Strategy {
 public:
  /// `host` is borrowed and must outlive the engine. Errors: usage, where the model or the options do not fit; those of
  /// the machine and of the store.
  static Result<std::unique_ptr<Engine>> make(ModelHost& host, const EngineOptions& options,
                                              const Machine& machine = this_machine());
  ~Engine() override;

  ValueCalls& values() override;
  CommitCalls& commits() override;
  ActivationCalls& activations() override;

  /// Places and initialises every parameter. Errors: does_not_fit with the budget that would suffice; those of the
  /// host's values.
  Result<void> attach() override;
  Result<void> before_forward(std::uint32_t unit) override;
  Result<void> after_forward(std::uint32_t unit) override;
  Result<void> before_backward(std::uint32_t unit) override;
  Result<void> after_backward(std::uint32_t unit) override;
  /// Requires: `grad` is a gradient of `param` (GradientCheck).
  Result<void> gradient(std::uint32_t param, DLManagedTensor* grad) override;
  Result<void> end_of_backward() override;
  Result<void> announce_step(const castor_step_args& args) override;
  Result<std::uint64_t> begin_step(const castor_step_args& args) override;
  Result<castor_step_result> step_result(std::uint64_t ticket) override;
  /// Ends the passes of all units and drops the step under way (OffloadOptimizer::abandon). Errors: those; the model is
  /// then between two steps, or the call must be repeated.
  Result<void> discard_gradients() override;
  /// Errors: those of PendingGradients::norm.
  Result<double> measure_norm() override;
  Result<std::uint64_t> reclaim(std::uint64_t n_bytes) override;
  Result<castor_stats> stats() override;
  /// Errors: those of OffloadOptimizer::settle.
  Result<void> settle() override;
  Result<void> write_trace(const char* path) override;

  /// True once the next steps are planned from times that are final, and no setting is tried any more.
  bool tuned() const;
  /// The collaborators, for the engine's own folder: their header is private.
  const EngineRooms& rooms() const { return *rooms_; }

 private:
  explicit Engine(std::unique_ptr<EngineRooms> rooms);
  Result<void> after_step(bool wants_norm);

  const std::unique_ptr<EngineRooms> rooms_;
  const std::unique_ptr<LentWeights> lent_;
  const std::unique_ptr<ModelValues> values_;
  const std::unique_ptr<UnitPasses> passes_;
  const std::unique_ptr<Placer> placer_;
  const std::unique_ptr<EngineActivations> activations_;
  const std::unique_ptr<SpeculationRoom> speculation_room_;
  const std::unique_ptr<Tuner> tuner_;
  const std::unique_ptr<EngineCommits> commits_;
  StepTickets tickets_;
};

}  // namespace castor

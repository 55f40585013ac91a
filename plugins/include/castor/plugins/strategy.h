// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>

namespace castor {

/// The last commit in a strategy's folders.
struct CommittedRun {
  std::uint64_t step = 0;
  std::string note;  ///< as it was given to commit
};

/// The calls around each unit of a model, and for its gradients: a plugin's strategy, or the resident run that it is
/// compared with.
///
/// The calls and their order are those of castor_strategy_v1; here they return results. Threads: as there, one call at
/// a time.
class Strategy {
 public:
  virtual ~Strategy() = default;

  virtual Result<void> before_forward(std::uint32_t unit) = 0;
  virtual Result<void> after_forward(std::uint32_t unit) = 0;
  virtual Result<void> before_backward(std::uint32_t unit) = 0;
  virtual Result<void> after_backward(std::uint32_t unit) = 0;
  /// Takes ownership of `grad`, also when it fails.
  virtual Result<void> gradient(std::uint32_t param, DLManagedTensor* grad) = 0;
  /// The backward pass of one micro-batch has ended.
  virtual Result<void> end_of_backward() = 0;
  /// Announces the backward pass after which `step` will be called, with these values.
  virtual Result<void> announce_step(const castor_step_args& /*args*/) { return {}; }
  /// Errors, before anything is changed: usage, where check_step_args refuses `args` or the plugin is too old for them.
  virtual Result<castor_step_result> step(const castor_step_args& args) = 0;
  /// Drops the step under way, which has failed or was broken off before any parameter was updated: the caller begins
  /// it anew, from its first micro-batch. Errors: usage where the strategy cannot; failed where parameters have been
  /// updated, so that the model is between two steps.
  virtual Result<void> abandon_step() { return Error{ErrorKind::usage, "this strategy cannot abandon a step"}; }
  /// Copies the fp32 master of `param` (numel values) to host memory.
  virtual Result<void> read_master(std::uint32_t param, float* out) = 0;
  /// Between two steps: fills, or takes over, part of a parameter's checkpoint. Errors: usage where the strategy
  /// cannot, or the range is not within the parameter; failed where an earlier step failed after some parameters were
  /// updated.
  virtual Result<void> read_state(castor_param_state& /*state*/) { return cannot_save(); }
  virtual Result<void> write_state(const castor_param_state& /*state*/) { return cannot_save(); }
  /// Between two steps: makes the current states, weights and counters durable, together with `note`, in one instant;
  /// returns once they are. Errors: usage where the strategy cannot, its options do not turn it on, or its folders hold
  /// a run that this one does not continue; io and the like, and then the last commit stays valid.
  virtual Result<castor_commit_result> commit(std::uint64_t /*step*/, std::string_view /*note*/) {
    return cannot_commit();
  }
  /// The last commit in the strategy's folders. Errors: usage, as commit.
  virtual Result<std::optional<CommittedRun>> committed() { return cannot_commit(); }
  /// Between attach and the first step: continues from the commit that the folders held. Errors: usage, where there is
  /// none.
  virtual Result<void> restore() { return cannot_commit(); }
  virtual Result<castor_stats> stats() = 0;
  /// Writes the events so far as a trace file. Errors: usage where the strategy keeps none.
  virtual Result<void> write_trace(const std::filesystem::path& path) = 0;

  /// Copies bytes that backward reads again; empty where the caller has to keep them itself.
  virtual Result<std::optional<std::uint32_t>> keep(const void* /*data*/, std::uint64_t /*n_bytes*/) {
    return std::optional<std::uint32_t>();
  }
  virtual Result<void*> recall(std::uint32_t /*kept*/) { return Error{ErrorKind::plugin, "nothing was kept"}; }
  virtual Result<void> forget(std::uint32_t /*kept*/) { return {}; }

 private:
  static Error cannot_save() { return {ErrorKind::usage, "this strategy has no states to save"}; }
  static Error cannot_commit() { return {ErrorKind::usage, "this strategy keeps no states that outlive it"}; }
};

}  // namespace castor

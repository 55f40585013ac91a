// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/booster.h>

#include <memory>

#include "strategy_table.h"

namespace castor {

/// A plugin's strategy behind the Strategy interface: statuses become Errors with the sentence that the host kept.
class AbiStrategy final : public Strategy {
 public:
  /// Creates the plugin's strategy with `options` (complete, as they cross). Errors: those that create reports; plugin
  /// where it returns no strategy or one that lacks a required function.
  static Result<std::unique_ptr<AbiStrategy>> make(const Plugin& plugin, ModelHost& model,
                                                   const PluginOptions& options);
  ~AbiStrategy() override { table_.destroy(); }

  Result<void> attach();

  Result<void> before_forward(std::uint32_t unit) override;
  Result<void> after_forward(std::uint32_t unit) override;
  Result<void> before_backward(std::uint32_t unit) override;
  Result<void> after_backward(std::uint32_t unit) override;
  Result<void> gradient(std::uint32_t param, DLManagedTensor* grad) override;
  Result<void> end_of_backward() override;
  Result<void> announce_step(const castor_step_args& args) override;
  Result<void> abandon_step() override;
  Result<castor_step_result> step(const castor_step_args& args) override;
  Result<void> read_master(std::uint32_t param, float* out) override;
  Result<void> read_state(castor_param_state& state) override;
  Result<void> write_state(const castor_param_state& state) override;
  Result<castor_commit_result> commit(std::uint64_t step, std::string_view note) override;
  Result<std::optional<CommittedRun>> committed() override;
  Result<void> restore() override;
  Result<castor_stats> stats() override;
  Result<void> write_trace(const std::filesystem::path& path) override;
  Result<std::optional<std::uint32_t>> keep(const void* data, std::uint64_t n_bytes) override;
  Result<void*> recall(std::uint32_t kept) override;
  Result<void> forget(std::uint32_t kept) override;

 private:
  explicit AbiStrategy(const StrategyTable& table) : table_(table) {}

  const StrategyTable table_;
};

}  // namespace castor

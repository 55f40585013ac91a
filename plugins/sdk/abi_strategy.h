// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <castor/plugins/booster.h>

#include "gradient_check.h"
#include "host_tables.h"
#include "plugin_errors.h"
#include "plugin_strategy.h"

namespace castor::sdk {

/// A plugin's strategy with all that belongs to it: the host's tables, and the checks of what crosses.
class AbiStrategy final : public PluginStrategy {
 public:
  /// Has the plugin create its strategy with `options` (complete, as they cross). Errors: those that create reports;
  /// plugin where it returns no strategy or one that lacks a required function.
  static Result<std::unique_ptr<AbiStrategy>> make(const Plugin& plugin, ModelHost& model,
                                                   const PluginOptions& options);
  ~AbiStrategy() override { table_.destroy(table_.self); }

  /// Errors: usage, where it is out of order (CallOrder); plugin, where it is no gradient of the parameter
  /// (GradientCheck); the plugin is not asked then.
  Result<void> gradient(std::uint32_t param, DLManagedTensor* grad) override;
  /// Errors of both: usage, where check_step_args refuses `args`; the plugin is not asked then.
  Result<void> announce_step(const castor_step_args& args) override;
  Result<std::uint64_t> begin_step(const castor_step_args& args) override;

 private:
  /// The host's half, which the plugin has from its creation on.
  struct Border {
    Border(const Plugin& plugin, ModelHost& model) : host(model), errors(plugin, host) {}
    HostTables host;
    PluginErrors errors;
  };
  AbiStrategy(std::unique_ptr<Border> border, const castor_strategy_v2& table, GradientCheck gradients);
  static Result<const castor_strategy_v2*> create(const Plugin& plugin, Border& border, const PluginOptions& options);

  const std::unique_ptr<Border> border_;
  const castor_strategy_v2& table_;  // the plugin's, until destroy
  GradientCheck gradients_;
};

}  // namespace castor::sdk

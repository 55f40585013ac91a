// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <castor/memory/result.h>
#include <castor/plugins/model_host.h>
#include <castor/plugins/option_schema.h>
#include <castor/plugins/plugin_loader.h>
#include <castor/plugins/strategy.h>

namespace castor {

/// Hands a model to a plugin: the first line a training program writes. Copies are cheap; one Booster may boost several
/// models.
///
/// Threads: one call at a time for a model.
class Booster {
 public:
  /// Checks `options` against the plugin's schema. Errors (kind usage) name the option, its range and, for an unknown
  /// one, the known ones.
  static Result<Booster> make(Plugin plugin, const PluginOptions& options);

  /// Creates the plugin's strategy for `model` and attaches it: afterwards every parameter is placed and initialised.
  /// `model` must outlive the strategy. Errors: usage where the plugin does not train on the model's device, or over
  /// its ranks or stages, or cannot combine its options; plugin where it broke its contract; else the plugin's own,
  /// does_not_fit above all.
  Result<std::unique_ptr<Strategy>> boost(ModelHost& model) const;

 private:
  Booster(Plugin plugin, PluginOptions options) : plugin_(std::move(plugin)), options_(std::move(options)) {}
  Plugin plugin_;
  PluginOptions options_;  // complete: each option of the schema once
};

}  // namespace castor

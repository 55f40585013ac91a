// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/booster.h>

#include <string>
#include <type_traits>

namespace castor {

/// The table of a plugin's strategy: the functions that it has, and calls of them that return results. A status other
/// than CASTOR_OK becomes an Error with the sentence that the plugin left with the host, or one that says it left none.
class StrategyTable {
 public:
  template <typename... Params>
  using Function = castor_status (*)(void* self, Params...);

  /// Has `plugin` create its strategy for `model`, which must outlive the table, with `options` (complete, as they
  /// cross). Errors: those that create reports; plugin where it returns no table or a shorter one than version 1.0 has.
  static Result<StrategyTable> create(const Plugin& plugin, ModelHost& model, const PluginOptions& options);
  /// Ends the strategy; no other call may follow.
  void destroy() const;

  /// Checks that the functions are there that every strategy needs. Errors: plugin.
  Result<void> check_functions() const;
  /// Checks that a step with `args` is valid for the model and the plugin. Errors: usage.
  Result<void> check_args(const castor_step_args& args) const;
  bool keeps() const;
  bool updates_early() const;
  /// Errors of the next four: usage, with the options to leave out or to set.
  Result<void> can_abandon() const;
  Result<void> can_save() const;
  Result<void> can_commit() const;
  Result<void> can_trace() const;

  /// Calls `function`, which errors name as `name`. Requires: it is not null.
  template <typename... Params>
  Result<void> call(Function<Params...> castor_strategy_v1::*function, const char* name,
                    std::type_identity_t<Params>... args) const {
    return outcome((table_.*function)(table_.self, args...), name);
  }
  /// The same; success where the function is null.
  template <typename... Params>
  Result<void> call_if_there(Function<Params...> castor_strategy_v1::*function, const char* name,
                             std::type_identity_t<Params>... args) const {
    return table_.*function ? call(function, name, args...) : Result<void>();
  }

 private:
  StrategyTable(const Plugin& plugin, ModelHost& model, const castor_strategy_v1& table)
      : plugin_(plugin), model_(model), table_(table) {}
  Result<void> outcome(castor_status status, const char* name) const;

  const Plugin plugin_;
  ModelHost& model_;
  const castor_strategy_v1& table_;  // the plugin's, until destroy
};

}  // namespace castor

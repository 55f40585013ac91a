// SPDX-License-Identifier: Apache-2.0
#include "strategy_table.h"

#include <castor/plugins/step_args.h>

#include "plugin_checks.h"

#include <utility>
#include <vector>

namespace castor {
namespace {

ErrorKind kind_of(castor_status status) {
  switch (status) {
    case CASTOR_USAGE: return ErrorKind::usage;
    case CASTOR_DOES_NOT_FIT: return ErrorKind::does_not_fit;
    case CASTOR_IO: return ErrorKind::io;
    case CASTOR_PLUGIN: return ErrorKind::plugin;
    case CASTOR_INTERRUPTED: return ErrorKind::interrupted;
    default: return ErrorKind::failed;
  }
}

std::string name_of(const Plugin& plugin) { return std::string("plugin ") + plugin.info->name; }

/// The plugin's own sentence, or where it left none, one that says so.
Error error_of(const Plugin& plugin, ModelHost& model, castor_status status, const char* function) {
  std::string message = model.take_error();
  if (message.empty())
    message =
        name_of(plugin) + ": " + function + " failed with status " + std::to_string(status) + " and gave no reason";
  return {kind_of(status), std::move(message)};
}

Error broken(const Plugin& plugin, const std::string& what) {
  return {ErrorKind::plugin, name_of(plugin) + " " + what + "; the plugin must be corrected"};
}

std::vector<castor_option_value> crossing(const PluginOptions& options) {
  std::vector<castor_option_value> values;
  for (const auto& [name, value] : options) values.push_back({name.c_str(), value.c_str()});
  return values;
}

}  // namespace

Result<StrategyTable> StrategyTable::create(const Plugin& plugin, ModelHost& model, const PluginOptions& options) {
  const auto values = crossing(options);
  const castor_strategy_v1* table = nullptr;
  const castor_status status = plugin.info->create(&model.table(), values.data(), values.size(), &table);
  if (status != CASTOR_OK) return error_of(plugin, model, status, "create");
  if (!table) return broken(plugin, "created no strategy and reported no error");
  if (table->struct_size < kStrategyV1Bytes)
    return broken(plugin, "created a strategy of " + std::to_string(table->struct_size) +
                              " bytes where version 1.0 has " + std::to_string(kStrategyV1Bytes));
  return StrategyTable(plugin, model, *table);
}

void StrategyTable::destroy() const {
  if (table_.destroy) table_.destroy(table_.self);
}

Result<void> StrategyTable::check_functions() const {
  const std::pair<const char*, bool> required[] = {{"attach", table_.attach}, {"gradient", table_.gradient},
                                                   {"step", table_.step},     {"read_master", table_.read_master},
                                                   {"stats", table_.stats},   {"destroy", table_.destroy}};
  for (const auto& [function, is_there] : required)
    if (!is_there) return broken(plugin_, std::string("has a strategy without the required function ") + function);
  if (keeps() && (!table_.recall || !table_.forget))
    return broken(plugin_, "has a strategy with keep and without recall or forget");
  return {};
}

Result<void> StrategyTable::check_args(const castor_step_args& args) const {
  CASTOR_TRY(check_support(*plugin_.info, args));
  return check_step_args(args, model_.table().n_params(model_.table().self));
}

bool StrategyTable::keeps() const { return table_.struct_size >= kStrategyV12Bytes && table_.keep; }

bool StrategyTable::updates_early() const { return table_.struct_size >= kStrategyV13Bytes && table_.announce_step; }

Result<void> StrategyTable::can_abandon() const {
  if (table_.struct_size >= kStrategyV112Bytes && table_.abandon_step) return {};
  return Error{ErrorKind::usage, name_of(plugin_) + " cannot abandon a step; start again"};
}

Result<void> StrategyTable::can_save() const {
  if (table_.struct_size >= kStrategyV14Bytes && table_.read_state && table_.write_state) return {};
  return Error{
      ErrorKind::usage,
      name_of(plugin_) + " cannot save its states; leave --checkpoint and --resume out or take another plugin"};
}

Result<void> StrategyTable::can_commit() const {
  if (table_.struct_size >= kStrategyV17Bytes && table_.commit && table_.committed && table_.restore) return {};
  return Error{ErrorKind::usage, name_of(plugin_) + " cannot commit its states; save them with --checkpoint"};
}

Result<void> StrategyTable::can_trace() const {
  if (table_.write_trace) return {};
  return Error{ErrorKind::usage, name_of(plugin_) + " keeps no trace; leave --trace out or take another plugin"};
}

Result<void> StrategyTable::outcome(castor_status status, const char* name) const {
  if (status == CASTOR_OK) return {};
  return error_of(plugin_, model_, status, name);
}

}  // namespace castor

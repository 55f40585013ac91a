// SPDX-License-Identifier: Apache-2.0
#include "abi_strategy.h"

#include <castor/plugins/step_args.h>

#include <string>
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
Error error_of(const Plugin& plugin, ModelHost& model, castor_status status, const char* what) {
  std::string message = model.take_error();
  if (message.empty())
    message = name_of(plugin) + ": " + what + " failed with status " + std::to_string(status) + " and gave no reason";
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

Result<std::unique_ptr<AbiStrategy>> AbiStrategy::make(const Plugin& plugin, ModelHost& model,
                                                       const PluginOptions& options) {
  const auto values = crossing(options);
  const castor_strategy_v1* table = nullptr;
  const castor_status status = plugin.info->create(&model.table(), values.data(), values.size(), &table);
  if (status != CASTOR_OK) return error_of(plugin, model, status, "create");
  if (!table) return broken(plugin, "created no strategy and reported no error");
  if (table->struct_size < kStrategyV1Bytes)
    return broken(plugin, "created a strategy of " + std::to_string(table->struct_size) +
                              " bytes where version 1.0 has " + std::to_string(kStrategyV1Bytes));
  std::unique_ptr<AbiStrategy> strategy(new AbiStrategy(plugin, model, *table));
  CASTOR_TRY(strategy->check_functions());
  return strategy;
}

AbiStrategy::~AbiStrategy() {
  if (table_.destroy) table_.destroy(table_.self);
}

Result<void> AbiStrategy::check_functions() const {
  const std::pair<const char*, bool> required[] = {{"attach", table_.attach}, {"gradient", table_.gradient},
                                                   {"step", table_.step},     {"read_master", table_.read_master},
                                                   {"stats", table_.stats},   {"destroy", table_.destroy}};
  for (const auto& [function, is_there] : required)
    if (!is_there) return broken(plugin_, std::string("has a strategy without the required function ") + function);
  if (keeps() && (!table_.recall || !table_.forget))
    return broken(plugin_, "has a strategy with keep and without recall or forget");
  return {};
}

Result<void> AbiStrategy::check(castor_status status, const char* what) const {
  if (status == CASTOR_OK) return {};
  return error_of(plugin_, model_, status, what);
}

Result<void> AbiStrategy::check_args(const castor_step_args& args) const {
  CASTOR_TRY(check_support(*plugin_.info, args));
  return check_step_args(args, model_.table().n_params(model_.table().self));
}

Result<void> AbiStrategy::attach() { return check(table_.attach(table_.self), "attach"); }

Result<void> AbiStrategy::before_forward(std::uint32_t unit) {
  return table_.before_forward ? check(table_.before_forward(table_.self, unit), "before_forward") : Result<void>();
}

Result<void> AbiStrategy::after_forward(std::uint32_t unit) {
  return table_.after_forward ? check(table_.after_forward(table_.self, unit), "after_forward") : Result<void>();
}

Result<void> AbiStrategy::before_backward(std::uint32_t unit) {
  return table_.before_backward ? check(table_.before_backward(table_.self, unit), "before_backward") : Result<void>();
}

Result<void> AbiStrategy::after_backward(std::uint32_t unit) {
  return table_.after_backward ? check(table_.after_backward(table_.self, unit), "after_backward") : Result<void>();
}

Result<void> AbiStrategy::gradient(std::uint32_t param, DLManagedTensor* grad) {
  return check(table_.gradient(table_.self, param, grad), "gradient");
}

Result<void> AbiStrategy::end_of_backward() {
  return table_.end_of_backward ? check(table_.end_of_backward(table_.self), "end_of_backward") : Result<void>();
}

Result<void> AbiStrategy::announce_step(const castor_step_args& args) {
  if (!updates_early()) return {};
  CASTOR_TRY(check_args(args));
  return check(table_.announce_step(table_.self, &args), "announce_step");
}

Result<castor_step_result> AbiStrategy::step(const castor_step_args& args) {
  CASTOR_TRY(check_args(args));
  castor_step_result result{sizeof(castor_step_result), 0, -1};
  CASTOR_TRY(check(table_.step(table_.self, &args, &result), "step"));
  return result;
}

Result<void> AbiStrategy::read_master(std::uint32_t param, float* out) {
  return check(table_.read_master(table_.self, param, out), "read_master");
}

Result<void> AbiStrategy::can_save() const {
  if (table_.struct_size >= kStrategyV14Bytes && table_.read_state && table_.write_state) return {};
  return Error{
      ErrorKind::usage,
      name_of(plugin_) + " cannot save its states; leave --checkpoint and --resume out or take another plugin"};
}

Result<void> AbiStrategy::read_state(castor_param_state& state) {
  CASTOR_TRY(can_save());
  return check(table_.read_state(table_.self, &state), "read_state");
}

Result<void> AbiStrategy::write_state(const castor_param_state& state) {
  CASTOR_TRY(can_save());
  return check(table_.write_state(table_.self, &state), "write_state");
}

Result<void> AbiStrategy::can_commit() const {
  if (table_.struct_size >= kStrategyV17Bytes && table_.commit && table_.committed && table_.restore) return {};
  return Error{ErrorKind::usage, name_of(plugin_) + " cannot commit its states; save them with --checkpoint"};
}

Result<castor_commit_result> AbiStrategy::commit(std::uint64_t step, std::string_view note) {
  CASTOR_TRY(can_commit());
  castor_commit_result result{sizeof(castor_commit_result), 0, 0};
  CASTOR_TRY(check(table_.commit(table_.self, step, note.data(), note.size(), &result), "commit"));
  return result;
}

Result<std::optional<CommittedRun>> AbiStrategy::committed() {
  CASTOR_TRY(can_commit());
  castor_committed_run run{sizeof(castor_committed_run), 0, 0, nullptr, 0};
  CASTOR_TRY(check(table_.committed(table_.self, &run), "committed"));
  if (run.exists == 0) return std::optional<CommittedRun>();
  return std::optional(CommittedRun{run.step, std::string(static_cast<const char*>(run.note), run.n_note_bytes)});
}

Result<void> AbiStrategy::restore() {
  CASTOR_TRY(can_commit());
  return check(table_.restore(table_.self), "restore");
}

Result<castor_stats> AbiStrategy::stats() {
  castor_stats stats{};
  stats.struct_size = sizeof stats;
  CASTOR_TRY(check(table_.stats(table_.self, &stats), "stats"));
  return stats;
}

Result<void> AbiStrategy::write_trace(const std::filesystem::path& path) {
  if (!table_.write_trace)
    return Error{ErrorKind::usage, name_of(plugin_) + " keeps no trace; leave --trace out or take another plugin"};
  return check(table_.write_trace(table_.self, path.c_str()), "write_trace");
}

Result<std::optional<std::uint32_t>> AbiStrategy::keep(const void* data, std::uint64_t n_bytes) {
  if (!keeps()) return std::optional<std::uint32_t>();
  std::uint32_t kept = CASTOR_NOT_KEPT;
  CASTOR_TRY(check(table_.keep(table_.self, data, n_bytes, &kept), "keep"));
  return kept == CASTOR_NOT_KEPT ? std::nullopt : std::optional(kept);
}

Result<void*> AbiStrategy::recall(std::uint32_t kept) {
  void* data = nullptr;
  CASTOR_TRY(check(table_.recall(table_.self, kept, &data), "recall"));
  return data;
}

Result<void> AbiStrategy::forget(std::uint32_t kept) { return check(table_.forget(table_.self, kept), "forget"); }

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "abi_strategy.h"

#include <string>

namespace castor {
namespace {

using Table = castor_strategy_v1;

}  // namespace

Result<std::unique_ptr<AbiStrategy>> AbiStrategy::make(const Plugin& plugin, ModelHost& model,
                                                       const PluginOptions& options) {
  CASTOR_ASSIGN(const StrategyTable table, StrategyTable::create(plugin, model, options));
  std::unique_ptr<AbiStrategy> strategy(new AbiStrategy(table));
  CASTOR_TRY(table.check_functions());
  return strategy;
}

Result<void> AbiStrategy::attach() { return table_.call(&Table::attach, "attach"); }

Result<void> AbiStrategy::before_forward(std::uint32_t unit) {
  return table_.call_if_there(&Table::before_forward, "before_forward", unit);
}

Result<void> AbiStrategy::after_forward(std::uint32_t unit) {
  return table_.call_if_there(&Table::after_forward, "after_forward", unit);
}

Result<void> AbiStrategy::before_backward(std::uint32_t unit) {
  return table_.call_if_there(&Table::before_backward, "before_backward", unit);
}

Result<void> AbiStrategy::after_backward(std::uint32_t unit) {
  return table_.call_if_there(&Table::after_backward, "after_backward", unit);
}

Result<void> AbiStrategy::gradient(std::uint32_t param, DLManagedTensor* grad) {
  return table_.call(&Table::gradient, "gradient", param, grad);
}

Result<void> AbiStrategy::end_of_backward() { return table_.call_if_there(&Table::end_of_backward, "end_of_backward"); }

Result<void> AbiStrategy::announce_step(const castor_step_args& args) {
  if (!table_.updates_early()) return {};
  CASTOR_TRY(table_.check_args(args));
  return table_.call(&Table::announce_step, "announce_step", &args);
}

Result<void> AbiStrategy::abandon_step() {
  CASTOR_TRY(table_.can_abandon());
  return table_.call(&Table::abandon_step, "abandon_step");
}

Result<castor_step_result> AbiStrategy::step(const castor_step_args& args) {
  CASTOR_TRY(table_.check_args(args));
  castor_step_result result{sizeof(castor_step_result), 0, -1};
  CASTOR_TRY(table_.call(&Table::step, "step", &args, &result));
  return result;
}

Result<void> AbiStrategy::read_master(std::uint32_t param, float* out) {
  return table_.call(&Table::read_master, "read_master", param, out);
}

Result<void> AbiStrategy::read_state(castor_param_state& state) {
  CASTOR_TRY(table_.can_save());
  return table_.call(&Table::read_state, "read_state", &state);
}

Result<void> AbiStrategy::write_state(const castor_param_state& state) {
  CASTOR_TRY(table_.can_save());
  return table_.call(&Table::write_state, "write_state", &state);
}

Result<castor_commit_result> AbiStrategy::commit(std::uint64_t step, std::string_view note) {
  CASTOR_TRY(table_.can_commit());
  castor_commit_result result{sizeof(castor_commit_result), 0, 0};
  CASTOR_TRY(table_.call(&Table::commit, "commit", step, note.data(), note.size(), &result));
  return result;
}

Result<std::optional<CommittedRun>> AbiStrategy::committed() {
  CASTOR_TRY(table_.can_commit());
  castor_committed_run run{sizeof(castor_committed_run), 0, 0, nullptr, 0};
  CASTOR_TRY(table_.call(&Table::committed, "committed", &run));
  if (run.exists == 0) return std::optional<CommittedRun>();
  return std::optional(CommittedRun{run.step, std::string(static_cast<const char*>(run.note), run.n_note_bytes)});
}

Result<void> AbiStrategy::restore() {
  CASTOR_TRY(table_.can_commit());
  return table_.call(&Table::restore, "restore");
}

Result<castor_stats> AbiStrategy::stats() {
  castor_stats stats{};
  stats.struct_size = sizeof stats;
  CASTOR_TRY(table_.call(&Table::stats, "stats", &stats));
  return stats;
}

Result<void> AbiStrategy::write_trace(const std::filesystem::path& path) {
  CASTOR_TRY(table_.can_trace());
  return table_.call(&Table::write_trace, "write_trace", path.c_str());
}

Result<std::optional<std::uint32_t>> AbiStrategy::keep(const void* data, std::uint64_t n_bytes) {
  if (!table_.keeps()) return std::optional<std::uint32_t>();
  std::uint32_t kept = CASTOR_NOT_KEPT;
  CASTOR_TRY(table_.call(&Table::keep, "keep", data, n_bytes, &kept));
  return kept == CASTOR_NOT_KEPT ? std::nullopt : std::optional(kept);
}

Result<void*> AbiStrategy::recall(std::uint32_t kept) {
  void* data = nullptr;
  CASTOR_TRY(table_.call(&Table::recall, "recall", kept, &data));
  return data;
}

Result<void> AbiStrategy::forget(std::uint32_t kept) { return table_.call(&Table::forget, "forget", kept); }

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/model_host.h>
#include <castor/plugins/strategy.h>

namespace castor {
namespace {

/// Offers of bytes are turned down.
class KeepsNothing final : public ActivationCalls {
 public:
  Result<std::uint32_t> keep(const void*, std::uint64_t) override { return std::uint32_t{0}; }
};

}  // namespace

Result<castor_unit_layout> ModelHost::unit_layout(std::uint32_t) {
  auto layout = blank<castor_unit_layout>();
  layout.parent = layout.block = CASTOR_NONE;
  return layout;
}

Result<castor_param_layout> ModelHost::param_layout(std::uint32_t param) {
  CASTOR_ASSIGN(const castor_param_info info, param_info(param));
  auto layout = blank<castor_param_layout>();
  layout.shard_dim = -1;
  layout.shard_group = CASTOR_NONE;
  layout.full_shape = info.shape;
  return layout;
}

CommitCalls& Strategy::commits() {
  static CommitCalls none;
  return none;
}

ActivationCalls& Strategy::activations() {
  static KeepsNothing none;
  return none;
}

Result<castor_step_result> Strategy::step(const castor_step_args& args) {
  CASTOR_ASSIGN(const std::uint64_t ticket, begin_step(args));
  return step_result(ticket);
}

Result<void> Strategy::read_master(std::uint32_t param, float* out) {
  return values().read_masters({sizeof(castor_values), param, 0, CASTOR_ALL, CASTOR_FP32, out});
}

Result<castor_commit_result> Strategy::commit(std::uint64_t step, std::string_view note) {
  CASTOR_TRY(commits().commit_begin({sizeof(castor_commit_args), step, note.data(), note.size()}));
  return commits().commit_wait();
}

Result<std::optional<CommittedRun>> Strategy::committed() {
  CASTOR_ASSIGN(const castor_committed_run run, commits().last_commit());
  if (run.exists == 0) return std::optional<CommittedRun>();
  return std::optional(CommittedRun{run.step, std::string(static_cast<const char*>(run.note), run.n_note_bytes)});
}

}  // namespace castor

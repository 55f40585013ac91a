// SPDX-License-Identifier: Apache-2.0
#include "strategy_tables.h"

#include <utility>

#include "thunk.h"

namespace castor::sdk {

template <>
StepCalls& StrategyTables::part() {
  return *strategy_;
}
template <>
ValueCalls& StrategyTables::part() {
  return strategy_->values();
}
template <>
CommitCalls& StrategyTables::part() {
  return strategy_->commits();
}
template <>
ActivationCalls& StrategyTables::part() {
  return strategy_->activations();
}

namespace {

const castor_steps_v2* steps_table() {
  using Side = StrategyTables;
  using Calls = StepCalls;
  static const castor_steps_v2 table = {
      .struct_size = sizeof table,
#include "as_thunks.inc"
#include <castor/plugins/abi/steps.inc>
  };
  return &table;
}

const castor_values_v2* values_table() {
  using Side = StrategyTables;
  using Calls = ValueCalls;
  static const castor_values_v2 table = {
      .struct_size = sizeof table,
#include "as_thunks.inc"
#include <castor/plugins/abi/values.inc>
  };
  return &table;
}

const castor_commits_v2* commits_table() {
  using Side = StrategyTables;
  using Calls = CommitCalls;
  static const castor_commits_v2 table = {
      .struct_size = sizeof table,
#include "as_thunks.inc"
#include <castor/plugins/abi/commits.inc>
  };
  return &table;
}

const castor_activations_v2* activations_table() {
  using Side = StrategyTables;
  using Calls = ActivationCalls;
  static const castor_activations_v2 table = {
      .struct_size = sizeof table,
#include "as_thunks.inc"
#include <castor/plugins/abi/activations.inc>
  };
  return &table;
}

void destroy(void* self) { delete static_cast<StrategyTables*>(self); }

}  // namespace

StrategyTables::StrategyTables(const std::string& plugin, const castor_host_v2& host)
    : prefix_(plugin + ": "),
      host_(host),
      calls_(host),
      table_{.struct_size = sizeof table_,
             .self = this,
             .steps = steps_table(),
             .values = values_table(),
             .commits = commits_table(),
             .activations = activations_table(),
             .destroy = destroy} {}

castor_status StrategyTables::make(const StrategyMaker& make) {
  return guarded([&]() -> Result<void> {
    CASTOR_ASSIGN(strategy_, make(calls_));
    return {};
  });
}

/// An Error without a message came from the host, which has it already.
castor_status StrategyTables::report(const Error& error) {
  if (error.message.empty()) return status_of(error.kind);
  const castor_error crossing = crossing_error(error);
  host_.model->set_error(host_.self, &crossing);
  return crossing.status;
}

}  // namespace castor::sdk

namespace castor {

castor_status export_strategy(const char* plugin, const castor_host_v2& host, const StrategyMaker& make,
                              const castor_strategy_v2** out) {
  auto tables = std::make_unique<sdk::StrategyTables>(plugin, host);
  const castor_status status = tables->make(make);
  if (status == CASTOR_OK) *out = &tables.release()->table();  // destroy takes it back
  return status;
}

}  // namespace castor

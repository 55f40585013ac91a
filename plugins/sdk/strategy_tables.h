// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <castor/plugins/export_strategy.h>

#include "abi_host.h"

namespace castor::sdk {

/// A Strategy as C tables, which the plugin that made it hands to the host. Cannot be moved: the tables point back at
/// it.
class StrategyTables {
 public:
  StrategyTables(const std::string& plugin, const castor_host_v2& host);
  StrategyTables(const StrategyTables&) = delete;
  StrategyTables& operator=(const StrategyTables&) = delete;

  /// Makes the strategy. Errors: those of `make`, left with the host.
  castor_status make(const StrategyMaker& make);
  const castor_strategy_v2& table() const { return table_; }

  /// The interface `Calls` of the strategy (Thunk). Requires: make() succeeded.
  template <typename Calls>
  Calls& part();

  /// Runs `body`, which returns a Result<void>; no exception leaves it.
  template <typename Body>
  castor_status guarded(const Body& body) noexcept {
    const Result<void> outcome = contained(prefix_, body);
    return outcome.ok() ? CASTOR_OK : report(outcome.error());
  }

 private:
  castor_status report(const Error& error);

  const std::string prefix_;  ///< of the texts of exceptions: "gemini: "
  const castor_host_v2& host_;
  AbiHost calls_;
  const castor_strategy_v2 table_;
  std::unique_ptr<Strategy> strategy_;
};

}  // namespace castor::sdk

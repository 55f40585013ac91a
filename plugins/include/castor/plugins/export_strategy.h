// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include <castor/plugins/model_host.h>
#include <castor/plugins/strategy.h>

namespace castor {

/// Makes the strategy of a plugin for `host`, which outlives it.
using StrategyMaker = std::function<Result<std::unique_ptr<Strategy>>(ModelHost& host)>;

/// The body of a plugin's `create`, for plugins in C++ that link libcastor: makes a strategy and hands it out as tables
/// whose functions call it. Errors and exceptions, of `make` and of every later call, become a status and the error
/// that the host keeps; `plugin` names the plugin in the texts of exceptions.
castor_status export_strategy(const char* plugin, const castor_host_v2& host, const StrategyMaker& make,
                              const castor_strategy_v2** out);

}  // namespace castor

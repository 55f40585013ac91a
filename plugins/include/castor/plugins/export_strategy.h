// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include <castor/plugins/model_host.h>
#include <castor/plugins/option_schema.h>
#include <castor/plugins/strategy.h>
#include <castor/version.h>

namespace castor {

/// Makes the strategy of a plugin for `host`, which outlives it.
using StrategyMaker = std::function<Result<std::unique_ptr<Strategy>>(ModelHost& host)>;

/// The body of a plugin's `create`, for plugins in C++ that link libcastor: makes a strategy and hands it out as tables
/// whose functions call it. Errors and exceptions, of `make` and of every later call, become a status and the error
/// that the host keeps; `plugin` names the plugin in the texts of exceptions.
castor_status export_strategy(const char* plugin, const castor_host_v2& host, const StrategyMaker& make,
                              const castor_strategy_v2** out);

/// A plugin in C++ that links libcastor.
struct CppPlugin {
  const char* name;
  const char* version;
  const char* summary;         ///< one line for `castor plugins list`
  std::uint64_t capabilities;  ///< CASTOR_CAP_*; CASTOR_CAP_LINKS_CASTOR need not be named
  OptionSchema options = {};
  /// Makes a strategy for a host that outlives it, from a value of each option.
  Result<std::unique_ptr<Strategy>> (*make)(ModelHost& host, std::span<const castor_option_value* const> values);
};

/// What castor_plugin_query_v2 returns for `kPlugin`, a constant of the plugin.
template <const CppPlugin& kPlugin>
const castor_plugin_info* plugin_info() {
  static const castor_plugin_info info = {
      .magic = CASTOR_PLUGIN_MAGIC,
      .struct_size = sizeof(castor_plugin_info),
      .abi_major = CASTOR_ABI_MAJOR,
      .abi_minor = CASTOR_ABI_MINOR,
      .n_options = static_cast<std::uint32_t>(kPlugin.options.size()),
      .capabilities = kPlugin.capabilities | CASTOR_CAP_LINKS_CASTOR,
      .torch_tag = "",
      .castor_tag = CASTOR_VERSION,
      .name = kPlugin.name,
      .version = kPlugin.version,
      .summary = kPlugin.summary,
      .options = kPlugin.options.data(),
      .create = [](const castor_host_v2* host, const castor_option_value* const* values, std::size_t n_values,
                   const castor_strategy_v2** out) {
        const auto make = [&](ModelHost& model) { return kPlugin.make(model, {values, n_values}); };
        return export_strategy(kPlugin.name, *host, make, out);
      }};
  return &info;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/plugins/plugin_loader.h>

#include "host_tables.h"
#include "other_side.h"

namespace castor::sdk {

/// A plugin, as the source of errors.
class PluginErrors final : public ErrorSource {
 public:
  PluginErrors(const Plugin& plugin, HostTables& host) : plugin_(plugin), host_(host) {}
  std::string name() const override { return std::string("plugin ") + plugin_.info->name; }
  /// The plugin's own error, or where it left none, one that says so.
  Error error_of(castor_status status, const char* function) const override;
  /// The error of a plugin that breaks its contract: "plugin x `what`; the plugin must be corrected".
  Error broken(const std::string& what) const;

 private:
  const Plugin plugin_;
  HostTables& host_;
};

}  // namespace castor::sdk

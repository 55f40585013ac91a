// SPDX-License-Identifier: Apache-2.0
#include "plugin_errors.h"

namespace castor::sdk {

Error PluginErrors::error_of(castor_status status, const char* function) const {
  auto error = host_.take_error().value_or(Error{});
  error.kind = kind_of(status);
  if (error.message.empty())
    error.message = name() + ": " + function + " failed with status " + std::to_string(status) + " and gave no reason";
  return error;
}

Error PluginErrors::broken(const std::string& what) const {
  return {ErrorKind::plugin, name() + " " + what + "; the plugin must be corrected"};
}

}  // namespace castor::sdk

// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/option_values.h>

namespace castor {

OptionValues::OptionValues(const PluginOptions& options) {
  for (const auto& [name, value] : options)
    values_.push_back({sizeof(castor_option_value), name.c_str(), value.c_str()});
  for (const castor_option_value& value : values_) pointers_.push_back(&value);
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include "option_values.h"

#include <cmath>

namespace castor::cli {

Result<void> read_number(const Values& values, const std::string& option, bool zero_allowed, double& target) {
  const std::string text = values[option].as<std::string>();
  const auto parsed = number<double>(text);
  if (!parsed || !std::isfinite(*parsed) || *parsed < 0 || (*parsed == 0 && !zero_allowed))
    return wrong(option, text, zero_allowed ? "a number of 0 or more" : "a number above 0");
  target = *parsed;
  return {};
}

Result<void> read_set(const Values& values, std::map<std::string, std::string>& target) {
  if (values.count("set") == 0) return {};
  for (const std::string& text : values["set"].as<std::vector<std::string>>()) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0) return wrong("set", text, "name=value");
    if (!target.emplace(text.substr(0, equals), text.substr(equals + 1)).second)
      return Error{ErrorKind::usage, "--set gives '" + text.substr(0, equals) + "' twice"};
  }
  return {};
}

}  // namespace castor::cli

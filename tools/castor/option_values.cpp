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

}  // namespace castor::cli

// SPDX-License-Identifier: Apache-2.0
#include "value_checks.h"

#include <castor/memory/text.h>

#include <cmath>

namespace castor {

Result<void> check_value(bool holds, std::string_view name, const std::string& takes, const std::string& given) {
  if (holds) return {};
  return Error{ErrorKind::usage, std::string(name) + " takes " + takes + ", not " + given, std::string(name)};
}

Result<void> check_at_least(double min, std::string_view name, double value) {
  return check_value(std::isfinite(value) && value >= min, name, "a number of " + shortest(min) + " or more",
                     shortest(value));
}

Result<void> check_count(std::int64_t min, std::string_view name, std::int64_t value) {
  const std::string takes = "a whole number of " + std::to_string(min) + " or more";
  return check_value(value >= min, name, takes, std::to_string(value));
}

}  // namespace castor

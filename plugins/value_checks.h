// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <castor/memory/result.h>

namespace castor {

/// Errors: usage unless `holds`: `name takes …, not given`. The name comes first, so that a command can put its own
/// spelling there.
Result<void> check_value(bool holds, std::string_view name, const std::string& takes, const std::string& given);

/// check_value for a finite number of at least `min`.
Result<void> check_at_least(double min, std::string_view name, double value);

/// check_value for a whole number of at least `min`.
Result<void> check_count(std::int64_t min, std::string_view name, std::int64_t value);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace castor {

/// Why the JSON `text` from outside is not to be read: levels of lists and objects beyond what a reader's stack holds
/// (32), or numbers that no integer field takes (beyond ±2^61, or a fraction below 0), whose conversion is undefined.
/// Nothing where it may be read; other defects are its parser's.
std::optional<std::string> json_out_of_bounds(std::string_view text);

}  // namespace castor

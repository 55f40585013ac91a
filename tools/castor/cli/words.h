// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace castor::cli {

/// A sentence of the library in the words of the command: each option in backquotes that a flag sets becomes that flag,
/// `host_budget` --host-budget. Everything else stays.
std::string worded(std::string_view sentence);

}  // namespace castor::cli

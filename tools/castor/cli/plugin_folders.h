// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

namespace castor::cli {

/// The folders with this program's plugins: those of its build tree if it runs from one, otherwise the folder they are
/// installed to.
std::vector<std::filesystem::path> plugin_folders();

}  // namespace castor::cli

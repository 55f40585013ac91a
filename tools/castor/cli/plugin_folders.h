// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

namespace castor::cli {

/// Where plugins lie beside this program: in the folders of its build tree if it runs from one, else in the folder
/// they are installed to.
std::vector<std::filesystem::path> plugin_folders();

}  // namespace castor::cli

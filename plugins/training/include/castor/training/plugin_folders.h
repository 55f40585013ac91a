// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

namespace castor {

/// The folders with the plugins that belong to this libcastor, for a PluginLoader, which searches the folders of
/// CASTOR_PLUGIN_PATH before them: the library's own build tree if it runs from one, otherwise the folder `castor`
/// beside it, in which they are installed. An installation may be moved as a whole.
std::vector<std::filesystem::path> plugin_folders();

/// The same for a library in `folder`.
std::vector<std::filesystem::path> plugin_folders_beside(const std::filesystem::path& folder);

}  // namespace castor

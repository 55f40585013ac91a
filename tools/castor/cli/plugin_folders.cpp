// SPDX-License-Identifier: Apache-2.0
#include "plugin_folders.h"

#include <algorithm>

namespace castor::cli {
namespace {

namespace fs = std::filesystem;

/// CASTOR_PLUGIN_LIBDIR is relative to the folder of the installed program, so that an installation can be moved.
fs::path installed_folder(const fs::path& program) { return (program / CASTOR_PLUGIN_LIBDIR).lexically_normal(); }

}  // namespace

std::vector<fs::path> plugin_folders() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<fs::path> folders;  // Meson's own folders for objects end in .p
  for (const auto& entry : fs::directory_iterator(program / "plugins", error)) {
    if (entry.is_directory(error) && entry.path().extension() != ".p") folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  if (folders.empty()) folders.push_back(installed_folder(program));
  return folders;
}

}  // namespace castor::cli

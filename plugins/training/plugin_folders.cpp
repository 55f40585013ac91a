// SPDX-License-Identifier: Apache-2.0
#include <castor/training/plugin_folders.h>

#include <dlfcn.h>

#include <algorithm>
#include <string>
#include <system_error>

namespace castor {
namespace {

namespace fs = std::filesystem;

/// A build tree keeps each plugin in a folder of its name.
bool holds_its_plugin(const fs::path& folder) {
  std::error_code refused;
  return fs::exists(folder / ("libcastor_" + folder.filename().string() + ".so"), refused);
}

/// The file that contains this function: libcastor, or a program that links it statically.
fs::path this_library() {
  Dl_info found = {};
  std::error_code refused;
  if (dladdr(reinterpret_cast<const void*>(&plugin_folders), &found) == 0 || found.dli_fname == nullptr) return {};
  const fs::path file = fs::canonical(found.dli_fname, refused);
  return refused ? fs::read_symlink("/proc/self/exe", refused) : file;
}

}  // namespace

std::vector<fs::path> plugin_folders_beside(const fs::path& folder) {
  const fs::path installed = folder / "castor";
  std::error_code refused;
  if (fs::is_directory(installed, refused)) return {installed};
  std::vector<fs::path> built;
  for (const auto& entry : fs::directory_iterator(folder, refused))
    if (holds_its_plugin(entry.path())) built.push_back(entry.path());
  std::sort(built.begin(), built.end());
  return built.empty() ? std::vector{installed} : built;
}

std::vector<fs::path> plugin_folders() { return plugin_folders_beside(this_library().parent_path()); }

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/plugin_loader.h>

#include <castor/memory/system_limit.h>
#include <castor/memory/text.h>
#include <castor/plugins/nearest_name.h>
#include <castor/version.h>

#include "plugin_checks.h"
#include "plugin_file.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace castor {
namespace {

constexpr std::string_view kPrefix = "libcastor_";
constexpr std::string_view kSuffix = ".so";
/// Castor's own library matches the names of plugins and may be in the same folder.
constexpr std::string_view kNoPlugin = "libcastor_torch.so";

std::string file_of(std::string_view name) { return std::string(kPrefix) + std::string(name) + std::string(kSuffix); }

std::string name_of(const std::filesystem::path& path) {
  const std::string file = path.filename().string();
  return file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size());
}

bool looks_like_plugin(const std::filesystem::directory_entry& entry) {
  const std::string file = entry.path().filename().string();
  std::error_code failure;
  return file.size() > kPrefix.size() + kSuffix.size() && file.starts_with(kPrefix) && file.ends_with(kSuffix) &&
         file != kNoPlugin && entry.is_regular_file(failure);
}

/// The plugin files of one folder by name; none where it cannot be read.
std::vector<std::filesystem::path> plugin_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure))
    if (looks_like_plugin(entry)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

void add_once(std::vector<std::filesystem::path>& folders, std::filesystem::path folder) {
  if (!folder.empty() && std::find(folders.begin(), folders.end(), folder) == folders.end())
    folders.push_back(std::move(folder));
}

std::vector<std::string> names_in(const std::vector<std::filesystem::path>& folders) {
  std::vector<std::string> names;
  for (const auto& folder : folders)
    for (const auto& file : plugin_files(folder)) names.push_back(name_of(file));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string describe_folders(const std::vector<std::filesystem::path>& folders) {
  std::vector<std::string> texts;
  std::error_code failure;
  for (const auto& folder : folders)
    texts.push_back(folder.string() + (std::filesystem::is_directory(folder, failure) ? "" : " (no such folder)"));
  return texts.empty() ? "no folder at all" : join(texts, " and ");
}

Error unknown_plugin(std::string_view name, const std::vector<std::filesystem::path>& folders) {
  const auto names = names_in(folders);
  std::string message = "there is no plugin '" + std::string(name) + "'";
  if (const auto nearest = nearest_name(name, names)) message += ", did you mean '" + *nearest + "'?";
  message += names.empty() ? "; none was found in " : "; found " + join(names, " and ") + " in ";
  return {ErrorKind::plugin, message + describe_folders(folders) +
                                 "; name one of them, a file with its path, or a folder in CASTOR_PLUGIN_PATH"};
}

}  // namespace

PluginLoader::PluginLoader(std::string torch_tag, std::vector<std::filesystem::path> libdirs)
    : torch_tag_(std::move(torch_tag)), libdirs_(std::move(libdirs)) {}

Result<Plugin> PluginLoader::load(std::string_view name_or_path) const {
  if (name_or_path.find('/') != std::string_view::npos) return load_file(name_or_path);
  const auto searched = folders();
  std::error_code failure;
  for (const auto& folder : searched)
    if (const auto path = folder / file_of(name_or_path); std::filesystem::exists(path, failure))
      return load_file(path);
  for (const auto& folder : searched) {  // or the system has hidden what is there
    (void)std::filesystem::directory_iterator(folder, failure);
    if (auto limit = limit_error(failure.value())) return *limit;
  }
  return unknown_plugin(name_or_path, searched);
}

std::vector<PluginListing> PluginLoader::list() const {
  std::vector<PluginListing> listings;
  for (const auto& folder : folders())
    for (const auto& file : plugin_files(folder)) listings.push_back({file, load_file(file)});
  return listings;
}

Result<Plugin> PluginLoader::load_file(const std::filesystem::path& path) const {
  CASTOR_ASSIGN(const castor_plugin_info* const info, open_plugin(path));
  if (const auto checked = check_plugin_info(*info, {torch_tag_, CASTOR_VERSION}); !checked.ok())
    return Error{checked.error().kind, path.string() + ": " + checked.error().message};
  return Plugin{path, info};
}

std::vector<std::filesystem::path> PluginLoader::folders() const {
  std::vector<std::filesystem::path> found;
  const char* const variable = std::getenv("CASTOR_PLUGIN_PATH");
  for (std::string_view rest = variable ? variable : ""; !rest.empty();) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    add_once(found, rest.substr(0, colon));
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  for (const auto& folder : libdirs_) add_once(found, folder);
  return found;
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>

namespace castor {

/// A plugin that has passed every check. Plugins are never unloaded, so copies are free and stay valid.
struct Plugin {
  std::filesystem::path path;
  const castor_plugin_info* info = nullptr;
};

/// One file found on the search path: a plugin, or the Error that refused it.
struct PluginListing {
  std::filesystem::path path;
  Result<Plugin> plugin;
};

/// Finds and loads plugins.
///
/// Checks run in this order, each with its own error (kind: plugin) that gives the value found, the value expected and
/// the remedy: file, symbol, magic, size, major, minor, capabilities, tags of linked libraries, then the description.
/// No function of the plugin but its query runs before all have passed (functions that the dynamic linker itself starts
/// cannot be held back). Threads: any, as long as no thread changes the environment.
class PluginLoader {
 public:
  /// `torch_tag`: the tag of this host's LibTorch, see torch_build_tag(); "" where there is none. `libdirs`: the
  /// folders in which this installation keeps its plugins, searched in this order after CASTOR_PLUGIN_PATH.
  PluginLoader(std::string torch_tag, std::vector<std::filesystem::path> libdirs);

  /// Loads by path (anything with a slash) or by name: `gemini` is `libcastor_gemini.so` in the folders of
  /// CASTOR_PLUGIN_PATH, then in libdirs. Errors: plugin; for an unknown name it lists the names that were found.
  Result<Plugin> load(std::string_view name_or_path) const;

  /// Every `libcastor_*.so` on the search path in search order, accepted or refused; Castor's own libcastor_torch.so is
  /// left out.
  std::vector<PluginListing> list() const;

  /// The search path: the folders of CASTOR_PLUGIN_PATH, then libdirs, each once.
  std::vector<std::filesystem::path> folders() const;

 private:
  Result<Plugin> load_file(const std::filesystem::path& path) const;

  const std::string torch_tag_;
  const std::vector<std::filesystem::path> libdirs_;
};

}  // namespace castor

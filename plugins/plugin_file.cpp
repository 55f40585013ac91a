// SPDX-License-Identifier: Apache-2.0
#include "plugin_file.h"

#include <dlfcn.h>

#include <array>
#include <fstream>
#include <string>

namespace castor {
namespace {

Error refused(const std::filesystem::path& path, const std::string& what) {
  return {ErrorKind::plugin, path.string() + ": " + what};
}

/// Checks the file itself first: the linker's own messages for a text file or a folder do not help.
Result<void> check_file(const std::filesystem::path& path) {
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status))
    return refused(path, "there is no such file; `castor plugins list` shows those that are found");
  if (!std::filesystem::is_regular_file(status)) return refused(path, "is not a file; name the libcastor_*.so itself");
  std::ifstream file(path, std::ios::binary);
  if (!file) return refused(path, "cannot be read; give yourself the right to read it");
  std::array<char, 4> head{};
  file.read(head.data(), head.size());
  if (head != std::array<char, 4>{0x7f, 'E', 'L', 'F'})
    return refused(path, "is not a shared object (it has no ELF header); a plugin is built as libcastor_NAME.so");
  return {};
}

Result<void*> open_object(const std::filesystem::path& path) {
  void* const object = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!object) return refused(path, std::string("cannot be loaded: ") + dlerror() + "; `ldd -r` shows what it lacks");
  return object;
}

}  // namespace

Result<const castor_plugin_info*> open_plugin(const std::filesystem::path& path) {
  CASTOR_TRY(check_file(path));
  CASTOR_ASSIGN(void* const object, open_object(path));
  const auto query = reinterpret_cast<decltype(&castor_plugin_query_v2)>(dlsym(object, CASTOR_PLUGIN_ENTRY));
  if (!query) return refused(path, "exports no " CASTOR_PLUGIN_ENTRY "; it is a library but not a Castor plugin");
  const castor_plugin_info* const info = query();
  if (!info) return refused(path, CASTOR_PLUGIN_ENTRY " returned no description; the plugin must be corrected");
  return info;
}

}  // namespace castor

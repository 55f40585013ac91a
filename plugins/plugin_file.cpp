// SPDX-License-Identifier: Apache-2.0
#include "plugin_file.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <optional>
#include <string>

#include <castor/memory/system_limit.h>

namespace castor {
namespace {

Error refused(const std::filesystem::path& path, const std::string& what) {
  return {ErrorKind::plugin, path.string() + ": " + what};
}

/// A file that was cut short would end the process when its missing part is touched.
Result<void> check_whole(const std::filesystem::path& path, std::ifstream& file, std::uint64_t n_bytes) {
  Elf64_Ehdr header{};
  file.seekg(0);
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  std::uint64_t needed_bytes =
      file ? header.e_phoff + std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr) : sizeof header;
  for (std::uint16_t i = 0; file && needed_bytes <= n_bytes && i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + i * sizeof part));
    file.read(reinterpret_cast<char*>(&part), sizeof part);
    if (part.p_type == PT_LOAD) needed_bytes = std::max<std::uint64_t>(needed_bytes, part.p_offset + part.p_filesz);
  }
  if (needed_bytes <= n_bytes) return {};
  return refused(path, "is cut short: it has " + std::to_string(n_bytes) + " bytes of the " +
                           std::to_string(needed_bytes) + " that its header names or more; copy it here again");
}

/// Checks the file itself first: the linker's own messages for a text file or a folder do not help.
Result<void> check_file(const std::filesystem::path& path) {
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status))
    return refused(path, "there is no such file; `castor plugins list` shows those that are found");
  if (!std::filesystem::is_regular_file(status)) return refused(path, "is not a file; name the libcastor_*.so itself");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (auto limit = file ? std::nullopt : limit_error(errno)) return *limit;
  if (!file) return refused(path, "cannot be read; give yourself the right to read it");
  const auto n_bytes = std::filesystem::file_size(path, failure);
  if (n_bytes == 0) return refused(path, "is empty; copy it here again");
  std::array<char, 4> head{};
  file.read(head.data(), head.size());
  if (head != std::array<char, 4>{0x7f, 'E', 'L', 'F'})
    return refused(path, "is not a shared object (it has no ELF header); a plugin is built as libcastor_NAME.so");
  return check_whole(path, file, n_bytes);
}

/// The system maps no code from a file system that is mounted noexec.
Result<void> check_mount(const std::filesystem::path& path) {
  struct statvfs facts {};
  if (::statvfs(path.c_str(), &facts) != 0 || (facts.f_flag & ST_NOEXEC) == 0) return {};
  return refused(path,
                 "lies on a file system that is mounted noexec, from which no code is loaded; copy the plugin to "
                 "another folder, or mount it with exec");
}

Result<void*> open_object(const std::filesystem::path& path) {
  void* const object = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!object) return refused(path, std::string("cannot be loaded: ") + dlerror() + "; `ldd -r` shows what it lacks");
  return object;
}

}  // namespace

Result<const castor_plugin_info*> open_plugin(const std::filesystem::path& path) {
  CASTOR_TRY(check_file(path));
  CASTOR_TRY(check_mount(path));
  CASTOR_ASSIGN(void* const object, open_object(path));
  const auto query = reinterpret_cast<decltype(&castor_plugin_query_v2)>(dlsym(object, CASTOR_PLUGIN_ENTRY));
  if (!query) return refused(path, "exports no " CASTOR_PLUGIN_ENTRY "; it is a library but not a Castor plugin");
  const castor_plugin_info* const info = query();
  if (!info) return refused(path, CASTOR_PLUGIN_ENTRY " returned no description; the plugin must be corrected");
  return info;
}

}  // namespace castor

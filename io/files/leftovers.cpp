// SPDX-License-Identifier: Apache-2.0
#include "leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <functional>
#include <memory>
#include <string_view>

#include <castor/io/folder.h>
#include <castor/io/unique_fd.h>

#include "file_lock.h"
#include "folder_ops.h"
#include "engine/io_error.h"
#include "store/store_format.h"

namespace castor {
namespace {

constexpr std::uint64_t kStatBlockBytes = 512;  // the unit of st_blocks

/// `.castor-` and six characters of mkostemp.
bool is_unnamed(std::string_view name) {
  const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  return name.size() == kUnnamedPrefix.size() + 6 && name.starts_with(kUnnamedPrefix) &&
         std::all_of(name.begin() + kUnnamedPrefix.size(), name.end(), letter);
}

bool is_ours(std::string_view name) {
  return has_affixes(name, kDataPrefix, kDataSuffix) || name == std::string(kManifestName) + kTemporarySuffix ||
         is_unnamed(name);
}

Result<std::vector<std::string>> names_in(int folder_fd, const std::string& folder) {
  const int own_fd = ::openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* opened = own_fd < 0 ? nullptr : ::fdopendir(own_fd);
  if (!opened) {
    const int error_number = errno;
    const UniqueFd close_it(own_fd);
    return path_error("cannot list folder " + folder, folder, error_number);
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opened, ::closedir);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing.get())) names.emplace_back(entry->d_name);
  return names;
}

/// Removes `name` unless a living process has it locked; returns the bytes that it took, or -1 where it stays.
std::int64_t remove_if_dead(int folder_fd, const std::string& name) {
  const UniqueFd file(::openat(folder_fd, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat opened {};
  struct stat named {};
  if (!file || ::fstat(file.get(), &opened) != 0) return -1;
  if (!S_ISREG(opened.st_mode) || opened.st_uid != ::geteuid()) return -1;
  if (lock_or_holder(file.get(), FileLock::exclusive)) return -1;
  // Its owner may have ended just now, and the name may be another file's since.
  if (::fstatat(folder_fd, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0) return -1;
  if (named.st_ino != opened.st_ino || named.st_dev != opened.st_dev) return -1;
  if (::unlinkat(folder_fd, name.c_str(), 0) != 0) return -1;
  return static_cast<std::int64_t>(opened.st_blocks) * static_cast<std::int64_t>(kStatBlockBytes);
}

Result<Leftovers> remove_those(const std::string& folder, const std::function<bool(const std::string&)>& is_leftover) {
  const UniqueFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return path_error("cannot look for leftovers in folder " + folder, folder, errno);
  CASTOR_ASSIGN(const auto names, names_in(opened.get(), folder));
  Leftovers removed;
  for (const auto& name : names) {
    const auto n_bytes = is_leftover(name) ? remove_if_dead(opened.get(), name) : -1;
    if (n_bytes < 0) continue;
    ++removed.n_files;
    removed.n_bytes += static_cast<std::uint64_t>(n_bytes);
  }
  return removed;
}

}  // namespace

Result<Leftovers> remove_leftovers(const std::string& folder, const std::vector<std::string>& keep_names) {
  return remove_those(folder, [&](const std::string& name) {
    return is_ours(name) && std::find(keep_names.begin(), keep_names.end(), name) == keep_names.end();
  });
}

Result<Leftovers> remove_unnamed_leftovers(const std::string& folder) { return remove_those(folder, is_unnamed); }

}  // namespace castor

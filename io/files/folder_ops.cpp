// SPDX-License-Identifier: Apache-2.0
#include "folder_ops.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

#include <castor/io/unique_fd.h>

#include "engine/io_error.h"
#include "named_file.h"

namespace castor {
namespace {

/// O_NONBLOCK: a named pipe must not block the caller; a regular file ignores it.
constexpr int kNonBlocking = O_CLOEXEC | O_NONBLOCK;

/// Repeats `call` until no signal interrupts it.
template <typename Call>
auto uninterrupted(Call call) {
  auto answer = call();
  while (answer < 0 && errno == EINTR) answer = call();
  return answer;
}

/// The error of an operation on `path`; `what` names the operation.
Error failure(const std::string& what, const std::string& path, int error_number) {
  return file_error(what + " " + path, path, error_number);
}

/// Returns the length of the file.
Result<std::uint64_t> check_regular(const UniqueFd& fd, const std::string& path) {
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0) return failure("cannot look at", path, errno);
  if (S_ISREG(facts.st_mode)) return static_cast<std::uint64_t>(facts.st_size);
  return Error{ErrorKind::io, "cannot use " + path + ": it is no regular file; move it away or name another folder"};
}

UniqueFd open_file(const std::string& path, int flags) {
  return UniqueFd(uninterrupted([&] { return ::open(path.c_str(), kNonBlocking | O_NOFOLLOW | flags, kByUmask); }));
}

Result<void> write_all(const UniqueFd& fd, std::span<const std::byte> bytes, const std::string& path) {
  const auto asked_bytes = bytes.size();
  while (!bytes.empty()) {
    const auto moved = uninterrupted([&] { return ::write(fd.get(), bytes.data(), bytes.size()); });
    if (moved <= 0)
      return failure("cannot write byte " + std::to_string(asked_bytes - bytes.size()) + " of " +
                         std::to_string(asked_bytes) + " of",
                     path, moved == 0 ? EIO : errno);
    bytes = bytes.subspan(static_cast<std::size_t>(moved));
  }
  return {};
}

/// Reads until `into` is full or the file ends; returns the number of bytes read.
Result<std::uint64_t> read_all(const UniqueFd& fd, std::span<std::byte> into, const std::string& path) {
  std::uint64_t n_bytes = 0;
  while (!into.empty()) {
    const auto moved = uninterrupted([&] { return ::read(fd.get(), into.data(), into.size()); });
    if (moved < 0) return failure("cannot read", path, errno);
    if (moved == 0) break;
    n_bytes += static_cast<std::uint64_t>(moved);
    into = into.subspan(static_cast<std::size_t>(moved));
  }
  return n_bytes;
}

Result<void> sync(const UniqueFd& fd, const std::string& path) {
  if (uninterrupted([&] { return ::fsync(fd.get()); }) == 0) return {};
  return failure("cannot sync", path, errno);
}

}  // namespace

Result<void> SystemFolderOps::write_file(const std::string& path, std::span<const std::byte> bytes) {
  const UniqueFd fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (!fd) return failure("cannot create", path, errno);
  CASTOR_TRY(check_regular(fd, path));
  return write_all(fd, bytes, path);
}

Result<std::optional<std::vector<std::byte>>> SystemFolderOps::read_file(const std::string& path,
                                                                         std::uint64_t max_bytes) {
  const UniqueFd fd = open_file(path, O_RDONLY);
  if (!fd && errno == ENOENT) return std::optional<std::vector<std::byte>>();
  if (!fd) return failure("cannot open", path, errno);
  CASTOR_ASSIGN(const auto size_bytes, check_regular(fd, path));
  if (size_bytes > max_bytes)
    return Error{ErrorKind::io, "cannot read " + path + ": it has " + std::to_string(size_bytes) + " bytes, at most " +
                                    std::to_string(max_bytes) + " were expected; move it away or name another folder"};
  std::vector<std::byte> bytes(size_bytes);
  CASTOR_ASSIGN(const auto n_bytes, read_all(fd, bytes, path));
  bytes.resize(n_bytes);
  return std::optional(std::move(bytes));
}

Result<void> SystemFolderOps::sync_file(const std::string& path) {
  const UniqueFd fd = open_file(path, O_RDONLY);
  if (!fd) return failure("cannot open", path, errno);
  CASTOR_TRY(check_regular(fd, path));
  return sync(fd, path);
}

Result<void> SystemFolderOps::rename(const std::string& from, const std::string& to) {
  if (uninterrupted([&] { return ::rename(from.c_str(), to.c_str()); }) == 0) return {};
  return failure("cannot give " + from + " the name", to, errno);
}

Result<void> SystemFolderOps::remove(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return failure("cannot remove", path, errno);
}

Result<void> SystemFolderOps::sync_folder(const std::string& folder) {
  const UniqueFd fd(uninterrupted([&] { return ::open(folder.c_str(), kNonBlocking | O_RDONLY | O_DIRECTORY); }));
  if (!fd) return path_error("cannot open folder " + folder, folder, errno);
  return sync(fd, folder);
}

Result<std::vector<std::string>> SystemFolderOps::list(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  if (!entries) return path_error("cannot look into folder " + folder, folder, errno);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) return path_error("cannot look into folder " + folder, folder, errno);
  std::sort(names.begin(), names.end());
  return names;
}

Result<void> replace_file(FolderOps& ops, const std::string& folder, const std::string& name,
                          std::span<const std::byte> bytes) {
  const std::string path = folder + "/" + name;
  const std::string temporary = path + kTemporarySuffix;
  const auto put_in_place = [&]() -> Result<void> {
    CASTOR_TRY(ops.write_file(temporary, bytes));
    CASTOR_TRY(ops.sync_file(temporary));
    return ops.rename(temporary, path);
  };
  if (auto done = put_in_place(); !done.ok()) {
    (void)ops.remove(temporary);  // a remaining one is overwritten the next time
    return done;
  }
  return ops.sync_folder(folder);
}

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#include <castor/io/folder.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include <castor/io/direct_file.h>
#include <castor/memory/bytes.h>
#include <castor/memory/host_resource.h>

#include "file_lock.h"
#include "store/store_format.h"
#include "engine/io_error.h"

namespace castor {
namespace {

Result<void> check_is_folder(const std::string& folder) {
  struct stat facts {};
  if (::stat(folder.c_str(), &facts) != 0) return path_error("cannot look at folder " + folder, folder, errno);
  if (!S_ISDIR(facts.st_mode)) return path_error("cannot use " + folder + " as a folder", folder, ENOTDIR);
  return {};
}

Result<void> write_and_read_back(const DirectFile& file) {
  HostResource memory;
  CASTOR_ASSIGN(Buffer block, Buffer::allocate(memory, kBufferAlignBytes));
  std::memset(block.data(), 0xA5, block.n_bytes());
  CASTOR_TRY(file.write_bytes(0, block.view()));
  std::memset(block.data(), 0, block.n_bytes());
  CASTOR_TRY(file.read_bytes(0, block.view()));
  for (std::uint64_t i = 0; i < block.n_bytes(); ++i) {
    if (block.data()[i] != std::byte{0xA5})
      return Error{ErrorKind::io,
                   file.path() + " gives back other bytes than were written to it; name a folder on another drive"};
  }
  return {};
}

}  // namespace

Result<std::uint64_t> available_bytes(const std::string& folder) {
  struct statvfs facts {};
  if (::statvfs(folder.c_str(), &facts) != 0) return path_error("cannot look at folder " + folder, folder, errno);
  return std::uint64_t{facts.f_bavail} * facts.f_frsize;
}

std::optional<FolderSpace> space_of(const std::vector<std::filesystem::path>& folders) {
  std::map<dev_t, FolderSpace> by_device;
  for (const auto& folder : folders) {
    struct stat facts {};
    std::error_code refused;
    const auto space = std::filesystem::space(folder, refused);
    if (refused || ::stat(folder.c_str(), &facts) != 0) return {};
    by_device[facts.st_dev] = {space.capacity, space.available};
  }
  FolderSpace all;
  for (const auto& [device, space] : by_device)
    all.capacity_bytes += space.capacity_bytes, all.available_bytes += space.available_bytes;
  return all;
}

Result<void> check_distinct(const std::vector<std::string>& folders) {
  std::map<std::pair<dev_t, ino_t>, std::string> known;
  for (const auto& folder : folders) {
    struct stat facts {};
    if (::stat(folder.c_str(), &facts) != 0) continue;
    const auto [other, is_new] = known.emplace(std::pair(facts.st_dev, facts.st_ino), folder);
    if (!is_new)
      return Error{ErrorKind::usage, "folder " + folder + " is named twice" +
                                         (folder == other->second ? "" : ", the other time as " + other->second) +
                                         "; name each folder once"};
  }
  return {};
}

Result<UniqueFd> lock_folder(const std::string& folder, FileLock kind) {
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return path_error("cannot lock folder " + folder, folder, errno);
  if (const auto holder = lock_or_holder(fd.get(), kind))
    return Error{ErrorKind::io, "cannot lock folder " + folder + ": " + *holder +
                                    " keeps a store there; wait until that ends, or name another folder"};
  return fd;
}

bool holds_store(const std::string& folder) {
  return ::access((folder + '/' + kManifestName).c_str(), F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool is_store_file(std::string_view name) {
  return name.starts_with(kManifestName) || name.starts_with(kUnnamedPrefix) ||
         has_affixes(name, kDataPrefix, kDataSuffix);
}

Result<FolderProbe> probe_folder(const std::string& folder) {
  CASTOR_TRY(check_is_folder(folder));
  FolderProbe probe;
  CASTOR_ASSIGN(probe.free_bytes, available_bytes(folder));
  const auto file = DirectFile::create_unnamed(folder);
  const auto tried = file.ok() ? write_and_read_back(*file) : Result<void>(file.error());
  if (!tried.ok()) {
    probe.detail = tried.error().message;
    return probe;
  }
  probe.writable = true;
  probe.direct = file->direct();
  probe.unnamed = file->never_named();
  probe.detail = file->fallback_reason();
  return probe;
}

}  // namespace castor

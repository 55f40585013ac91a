// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <castor/memory/result.h>

namespace castor {

/// The few operations on small files and names that a crash can tear apart, behind an interface so that a test can fail
/// each of them and can foretell what a power cut leaves.
///
/// Nothing is on the drive before it was synced: the bytes of a file by sync_file, its name by sync_folder.
/// A file that is a symbolic link, or no regular file, is refused; a folder may be a link.
/// Errors, of every function: io, one sentence with the path, the system's reason and what to do.
/// Threads: as the implementation says; all calls block.
class FolderOps {
 public:
  virtual ~FolderOps() = default;

  /// Makes `path` a file (mode 0600 where it is new) that holds `bytes` and nothing else. After an error it may hold a
  /// part of them.
  virtual Result<void> write_file(const std::string& path, std::span<const std::byte> bytes) = 0;
  /// The bytes of `path`; nothing where there is no such file. More than `max_bytes` are an error.
  virtual Result<std::optional<std::vector<std::byte>>> read_file(const std::string& path, std::uint64_t max_bytes) = 0;
  /// Blocks until the bytes of `path` lie on the drive.
  virtual Result<void> sync_file(const std::string& path) = 0;
  /// Gives `from` the name `to`, in place of the file that had it.
  virtual Result<void> rename(const std::string& from, const std::string& to) = 0;
  /// Takes the name away. A file that is not there is no error.
  virtual Result<void> remove(const std::string& path) = 0;
  /// Blocks until the names in `folder` lie on the drive.
  virtual Result<void> sync_folder(const std::string& folder) = 0;
  /// The names in `folder`, sorted, without `.` and `..`.
  virtual Result<std::vector<std::string>> list(const std::string& folder) = 0;
};

/// The operations on the file systems of this machine. Threads: any.
class SystemFolderOps final : public FolderOps {
 public:
  Result<void> write_file(const std::string& path, std::span<const std::byte> bytes) override;
  Result<std::optional<std::vector<std::byte>>> read_file(const std::string& path, std::uint64_t max_bytes) override;
  Result<void> sync_file(const std::string& path) override;
  Result<void> rename(const std::string& from, const std::string& to) override;
  Result<void> remove(const std::string& path) override;
  Result<void> sync_folder(const std::string& folder) override;
  Result<std::vector<std::string>> list(const std::string& folder) override;
};

/// What replace_file writes before it gives it the name.
inline constexpr const char* kTemporarySuffix = ".tmp";

/// Makes `name` in `folder` a file that holds `bytes`: written as `name.tmp`, synced, renamed, and the folder synced.
///
/// Whenever the machine stops, `name` holds all of the old bytes or all of the new ones; once this has returned, the
/// new ones. After an error before the rename it holds the old bytes and the temporary file is gone, where it could be
/// removed; an error of the last step, the sync of the folder, leaves the new bytes, which a power cut may still undo.
Result<void> replace_file(FolderOps& ops, const std::string& folder, const std::string& name,
                          std::span<const std::byte> bytes);

}  // namespace castor

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

/// The operations on small files and names that a crash can tear apart, behind an interface so that a test can make
/// each of them fail and predict the state after a power cut.
///
/// Nothing is durable before it was synced: the bytes of a file by sync_file, its name by sync_folder.
/// A file that is a symbolic link, or no regular file, is refused; a folder may be a link.
/// Errors, of every function: io, one sentence with the path, the system's reason and advice.
/// Threads: as the implementation says; all calls block.
class FolderOps {
 public:
  virtual ~FolderOps() = default;

  /// Makes `path` a file (a new one by the umask) with exactly `bytes`. After an error it may hold a part of them.
  virtual Result<void> write_file(const std::string& path, std::span<const std::byte> bytes) = 0;
  /// The bytes of `path`; nothing where the file does not exist. More than `max_bytes` are an error.
  virtual Result<std::optional<std::vector<std::byte>>> read_file(const std::string& path, std::uint64_t max_bytes) = 0;
  /// Blocks until the bytes of `path` are durable.
  virtual Result<void> sync_file(const std::string& path) = 0;
  /// Renames `from` to `to`, in place of a file of that name.
  virtual Result<void> rename(const std::string& from, const std::string& to) = 0;
  /// Removes the name. A missing file is no error.
  virtual Result<void> remove(const std::string& path) = 0;
  /// Blocks until the names in `folder` are durable.
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

/// The suffix of the file that replace_file writes and then renames.
inline constexpr const char* kTemporarySuffix = ".tmp";

/// Makes `name` in `folder` a file that holds `bytes`: written as `name.tmp`, synced, renamed, and the folder synced.
///
/// Whenever the machine stops, `name` holds all of the old bytes or all of the new ones; after a return without error,
/// the new ones. After an error before the rename it holds the old bytes, and the temporary file is removed if that is
/// possible; after an error of the last step, the sync of the folder, it holds the new bytes, which a power cut may
/// undo.
Result<void> replace_file(FolderOps& ops, const std::string& folder, const std::string& name,
                          std::span<const std::byte> bytes);

}  // namespace castor

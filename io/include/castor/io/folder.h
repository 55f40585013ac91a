// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <castor/io/unique_fd.h>
#include <castor/memory/result.h>

namespace castor {

/// Bytes that this process may still write into `folder`'s file system. Errors: io, where the folder cannot be looked
/// at.
Result<std::uint64_t> available_bytes(const std::string& folder);

/// The file systems of some folders, each counted once.
struct FolderSpace {
  std::uint64_t capacity_bytes = 0, available_bytes = 0;
};

/// Nothing where one of `folders` cannot be looked at.
std::optional<FolderSpace> space_of(const std::vector<std::filesystem::path>& folders);

/// Errors: usage, where two of `folders` are one, whatever their names (links included).
Result<void> check_distinct(const std::vector<std::string>& folders);

/// Who may have a file or folder at the same time.
enum class FileLock : std::uint8_t {
  shared,     ///< readers beside each other
  exclusive,  ///< one owner
};

/// Makes the caller the one owner of `folder`, or one of its readers, for as long as the descriptor lives: the lock
/// (flock) of a durable store.
///
/// The lock is advisory: it binds only code that asks for it, in this process too. It touches no file in the folder,
/// and a caller that keeps only unnamed files there needs no lock.
/// Errors: io, where the folder is missing or is none; where another owner has it, it names that one.
Result<UniqueFd> lock_folder(const std::string& folder, FileLock kind = FileLock::exclusive);

/// Whether `folder` has the manifest of a durable store (docs/storage.md), or does not let this user see.
bool holds_store(const std::string& folder);
/// Whether a file of this name is a store's in its folder, or is left of one: data, manifest, files without a name.
bool is_store_file(std::string_view name);

/// The capabilities of a folder for a TensorStore, for `castor check`.
struct FolderProbe {
  bool writable = false;  ///< a block was written and read back
  bool direct = false;    ///< … past the page cache (O_DIRECT)
  bool unnamed = false;   ///< files without a name work (O_TMPFILE)
  std::uint64_t free_bytes = 0;
  std::string detail;  ///< one sentence with the failure and its reason; empty where everything works
};

/// Probes `folder` by trying: creates an unnamed file of one block in it, writes it and reads it back.
/// Errors: io, where `folder` does not exist or is no folder. A folder that is not writable is an answer, not an error.
Result<FolderProbe> probe_folder(const std::string& folder);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <castor/io/unique_fd.h>
#include <castor/memory/result.h>

namespace castor {

/// Bytes that this process may still write into `folder`'s file system. Errors: io, where the folder cannot be looked
/// at.
Result<std::uint64_t> available_bytes(const std::string& folder);

/// Whether `path` is a symbolic link; a path that cannot be looked at is none.
bool is_link(const std::string& path);

/// Makes the caller the one owner of `folder` for as long as the descriptor lives: the lock (flock) of a durable store.
///
/// It binds those who ask for it, this process included. Files in the folder are not touched, and whoever only keeps
/// unnamed files there needs no lock.
/// Errors: io, where the folder is missing, is no folder or is a symbolic link; where another owner has it, who that is.
Result<UniqueFd> lock_folder(const std::string& folder);

/// What a folder offers to a TensorStore, for `castor check`.
struct FolderProbe {
  bool writable = false;  ///< a block was written and read back
  bool direct = false;    ///< … past the page cache
  bool unnamed = false;   ///< files without a name work (O_TMPFILE)
  std::uint64_t free_bytes = 0;
  std::string detail;  ///< one sentence: what does not work and why; empty where all does
};

/// Finds out by trying: creates an unnamed file of one block in `folder`, writes it and reads it back.
/// Errors: io, where `folder` does not exist or is none; that it is not writable is an answer, no error.
Result<FolderProbe> probe_folder(const std::string& folder);

}  // namespace castor

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <castor/memory/result.h>

namespace castor {

/// The files of dead runs that were removed from a folder.
struct Leftovers {
  std::uint64_t n_files = 0;
  std::uint64_t n_bytes = 0;  ///< their room on the drive
};

/// Removes the files of dead runs from a folder that the caller owns: `castor-*.data` and `castor.manifest.tmp` that
/// are not in `keep_names`, and `.castor-XXXXXX` (see DirectFile::create_unnamed).
///
/// A file is removed only if it is a regular file of this user and no process has it locked (DirectFile); this locks it
/// while it removes it. Symbolic links stay, and files that cannot be removed. Only the manifest of a store at rest
/// tells which data files it needs: `keep_names` must contain each of them.
/// Requires: the caller holds lock_folder(folder), so that no other store is opened there meanwhile.
/// Errors: io, where the folder cannot be listed.
Result<Leftovers> remove_leftovers(const std::string& folder, const std::vector<std::string>& keep_names);

/// The same for `.castor-XXXXXX` alone, which no manifest names: needs no lock on the folder.
Result<Leftovers> remove_unnamed_leftovers(const std::string& folder);

}  // namespace castor

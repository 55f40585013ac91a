// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <castor/memory/result.h>

namespace castor {

/// What dead runs had left in a folder and is gone now.
struct Leftovers {
  std::uint64_t n_files = 0;
  std::uint64_t n_bytes = 0;  ///< the room they took on the drive
};

/// Removes the files of dead runs from a folder that the caller owns: `castor-*.data` and `castor.manifest.tmp` that
/// are not in `keep_names`, and `.castor-XXXXXX` (see DirectFile::create_unnamed).
///
/// A file is removed only if it is a regular file of this user and nobody has it open under a lock (DirectFile), which
/// is held while it is removed; symbolic links are left alone, and so is what cannot be removed. Which data files a
/// store at rest still needs, only its manifest says: `keep_names` must have every one that it names.
/// Requires: the caller holds lock_folder(folder), so that no other store begins there meanwhile.
/// Errors: io, where the folder cannot be listed.
Result<Leftovers> remove_leftovers(const std::string& folder, const std::vector<std::string>& keep_names);

/// The same for `.castor-XXXXXX` alone, which no manifest ever names: needs no lock on the folder.
Result<Leftovers> remove_unnamed_leftovers(const std::string& folder);

}  // namespace castor

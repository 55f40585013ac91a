// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <castor/io/folder.h>

namespace castor {

/// Locks the file or folder behind `fd` (flock) until its last descriptor is closed. Returns nothing where that worked,
/// else the holder: `process 4711`, `this process`, or `another process` where the system does not tell.
///
/// Does not wait for a living holder. The kernel releases the locks of a killed process within milliseconds; this waits
/// for that, about two seconds at most.
/// The lock is advisory and belongs to one open of the file: a second open in this process is refused like that of
/// another process. On a file system without locks every lock succeeds.
std::optional<std::string> lock_or_holder(int fd, FileLock kind);

}  // namespace castor

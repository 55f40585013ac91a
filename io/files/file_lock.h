// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace castor {

enum class FileLock : std::uint8_t {
  shared,     ///< readers beside each other
  exclusive,  ///< one owner
};

/// Locks the file or folder behind `fd` (flock) until its last descriptor is closed; waits for nobody who lives (what a
/// killed process had, the kernel lets go within milliseconds, and that is waited for). Returns nothing where
/// it is locked now, else who keeps it from that: `process 4711`, `this process`, or `another process` where the system
/// does not tell.
///
/// The lock binds only those who ask for it, and it is one per open: a second open in this process is refused like a
/// foreign one. A file system without locks counts as one where nobody else is.
std::optional<std::string> lock_or_holder(int fd, FileLock kind);

}  // namespace castor
